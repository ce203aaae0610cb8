import { useState } from 'react'
import { stopAgent } from '../api/calls.ts'
import { sentenceOf } from '../api/client.ts'
import type { Report } from '../api/shapes.ts'
import { Confirm } from '../pieces/confirm.tsx'
import { oneLine, plural } from '../pieces/format.ts'
import { Problem } from '../pieces/notes.tsx'
import { useToast } from '../pieces/toasts.tsx'
import { isWaiting } from './words.ts'

export interface Left {
  readonly kind: string
  readonly name: string
  readonly error?: string | undefined
}

export interface TryAgainProps {
  readonly agentId: string
  readonly left: readonly Left[]
  readonly since?: string
  /** It is under way already, by somebody else or by the reaper; force still reaches it. */
  readonly isTried?: boolean
}

/** What an agent could not be rid of, why, and the same close once more. */
export function TryAgain({ agentId, left, since, isTried = false }: TryAgainProps) {
  const [asked, setAsked] = useState<'again' | 'force'>()
  const waiting = left.filter(isWaiting)
  const stuck = left.filter((one) => !isWaiting(one))
  const toast = useToast()
  const run = async (force: boolean): Promise<void> => {
    const report = await stopAgent(agentId, force)
    if (!report.success) throw new NotClean(report)
    toast({ text: `Clean now: ${plural(report.resources.length, 'resource')} of the agent proven gone.` })
  }
  return (
    <div className="note note--alarm">
      <div>
        <strong>
          {plural(stuck.length || left.length, 'resource')} could not be released{since === undefined ? '' : ` since ${since}`}
        </strong>
        <ul>
          {(stuck.length > 0 ? stuck : left).map(({ kind, name, error }) => (
            <li key={`${kind} ${name}`}>
              <span className="mono">
                {kind} {oneLine(name, 120)}
              </span>
              {error === undefined ? '' : `: ${oneLine(error, 300)}`}
            </li>
          ))}
        </ul>
        {stuck.length > 0 && waiting.length > 0 && <p>{plural(waiting.length, 'more waits', 'more wait')} for it.</p>}
      </div>
      <div className="note__actions">
        <button type="button" className="button" aria-disabled={isTried} onClick={() => !isTried && setAsked('again')}>
          {isTried ? 'Being tried…' : 'Try again'}
        </button>
        <button type="button" className="button" onClick={() => setAsked('force')}>
          Force
        </button>
      </div>
      {asked !== undefined && (
        <Confirm
          title={asked === 'force' ? 'Force what is left' : 'Try the same close again'}
          does={
            asked === 'force'
              ? [
                  'Kill at once what is left of this agent, without asking first',
                  'Give up, and name, what is owed and cannot be done in 10 seconds, such as archiving a log',
                ]
              : [
                  'Look at each thing that is left',
                  'Do what is owed, then ask, tell and kill, as far as that is needed',
                  'Look again, and say released only when it is seen gone',
                ]
          }
          keeps={[
            `The agent on record${asked === 'force' ? ' and its messages' : ', its messages and its archive'}`,
            'Whatever is not of this agent',
          ]}
          undo={asked === 'force' ? 'What is given up cannot be had back.' : 'There is nothing to undo: what is gone was to go.'}
          action={asked === 'force' ? 'Force' : 'Try again'}
          isDangerous={asked === 'force'}
          progress="Closing; this can take ten seconds…"
          run={() => run(asked === 'force')}
          onClose={() => setAsked(undefined)}
          failure={(error) => <Failure error={error} />}
        />
      )}
    </div>
  )
}

class NotClean extends Error {
  readonly report: Report

  constructor(report: Report) {
    super('It is not clean yet.')
    this.report = report
  }
}

function Failure({ error }: { readonly error: unknown }) {
  // Without a report nobody knows: the close may well go on.
  if (!(error instanceof NotClean)) return <Problem>It is not known whether it is still there: {sentenceOf(error)}</Problem>
  return (
    <Problem>
      It is still there:
      <ul>
        {error.report.errors
          .filter((one) => !isWaiting({ error: one }))
          .map((one) => (
            <li key={one}>{oneLine(one, 400)}</li>
          ))}
      </ul>
    </Problem>
  )
}
