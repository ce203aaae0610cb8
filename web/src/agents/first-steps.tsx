import { useState } from 'react'
import { token } from '../api/token.ts'
import { Empty, Problem } from '../pieces/notes.tsx'
import { exampleSchedule } from './schedule.ts'
import { useLaunch } from './use-launch.ts'

/** Shown while there are no agents: three ways to launch one. */
export function FirstSteps({ onLaunch }: { readonly onLaunch: () => void }) {
  const launch = useLaunch()
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState<string>()
  const start = async (): Promise<void> => {
    if (isBusy) return
    setBusy(true)
    setProblem(undefined)
    const prompt = 'Show me what an agent looks like.'
    const refusal = await launch({ type: 'synthetic', prompt, configuration: { schedule: exampleSchedule } })
    setBusy(false)
    setProblem(refusal?.message)
  }
  // The command line contains the variable, not the token itself: a copied command line ends up in shell histories.
  const authorization = token() === undefined ? '' : ` -H "Authorization: Bearer $EBB_TOKEN"`
  const line = `curl -X POST ${window.location.origin}/api/agents${authorization} -H 'Content-Type: application/json' -d '{"type":"synthetic","prompt":"Hello"}'`
  return (
    <Empty title="No agents yet.">
      <p>
        Launch a coding agent, or any command. Ebb shows its output live, and verifies that nothing it created is left when it has ended.
      </p>
      <div className="first-steps">
        <button type="button" className="button button--primary" onClick={() => void start()} aria-disabled={isBusy}>
          {isBusy ? 'Launching…' : 'Launch a synthetic agent'}
        </button>
        <button type="button" className="button" onClick={onLaunch}>
          Choose what to launch
        </button>
      </div>
      {problem !== undefined && <Problem>{problem}</Problem>}
      <p>The synthetic agent writes messages for a few seconds, needs no API key, and changes nothing. From a terminal:</p>
      <pre className="snippet">{line}</pre>
    </Empty>
  )
}
