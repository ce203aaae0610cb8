import { useState } from 'react'
import { token } from '../api/token.ts'
import { Empty, Problem } from '../pieces/notes.tsx'
import { exampleSchedule } from './schedule.ts'
import { useLaunch } from './use-launch.ts'

/** Nothing runs yet: three ways to change that, of which one is a click. */
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
  // The name of the variable, not the token: the line is for copying, and ends up in histories.
  const authorization = token() === undefined ? '' : ` -H "Authorization: Bearer $EBB_TOKEN"`
  const line = `curl -X POST ${window.location.origin}/api/agents${authorization} -H 'Content-Type: application/json' -d '{"type":"synthetic","prompt":"Hello"}'`
  return (
    <Empty title="No agents yet.">
      <p>
        Launch a coding agent, or any command. Ebb shows what it says while it says it, and proves that nothing of it is left when it is
        over.
      </p>
      <div className="first-steps">
        <button type="button" className="button button--primary" onClick={() => void start()} aria-disabled={isBusy}>
          {isBusy ? 'Launching…' : 'Launch a synthetic one'}
        </button>
        <button type="button" className="button" onClick={onLaunch}>
          Choose what to launch
        </button>
      </div>
      {problem !== undefined && <Problem>{problem}</Problem>}
      <p>The synthetic one talks for a few seconds, needs no key, and changes nothing. From a terminal:</p>
      <pre className="snippet">{line}</pre>
    </Empty>
  )
}
