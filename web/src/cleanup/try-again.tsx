import { useState } from 'react'
import { stopAgent } from '../api/calls.ts'
import { sentenceOf } from '../api/client.ts'
import { useLabels } from '../api/labels.tsx'
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
  /** True if a close of the agent is already in progress. "Try again" is then disabled; a forced close can still join the running one. */
  readonly isRetrying?: boolean
}

/** The resources of an agent that could not be released, with the reasons, and buttons to close the agent again. */
export function TryAgain({ agentId, left, since, isRetrying = false }: TryAgainProps) {
  const [mode, setMode] = useState<'retry' | 'force'>()
  const waiting = left.filter(isWaiting)
  const stuck = left.filter((resource) => !isWaiting(resource))
  const toast = useToast()
  const { kindTitle } = useLabels()
  const run = async (force: boolean): Promise<void> => {
    const report = await stopAgent(agentId, force)
    if (!report.success) throw new NotClean(report)
    toast({ text: `Clean: ${plural(report.resources.length, 'resource')} of the agent verified gone.` })
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
                {kindTitle(kind)} {oneLine(name, 120)}
              </span>
              {error === undefined ? '' : `: ${oneLine(error, 300)}`}
            </li>
          ))}
        </ul>
        {stuck.length > 0 && waiting.length > 0 && (
          <p>{plural(waiting.length, 'more resource waits', 'more resources wait')} until these are released.</p>
        )}
      </div>
      <div className="note__actions">
        <button type="button" className="button" aria-disabled={isRetrying} onClick={() => !isRetrying && setMode('retry')}>
          {isRetrying ? 'Retrying…' : 'Try again'}
        </button>
        <button type="button" className="button" onClick={() => setMode('force')}>
          Force
        </button>
      </div>
      {mode !== undefined && (
        <Confirm
          title={mode === 'force' ? 'Force the release' : 'Retry the close'}
          does={
            mode === 'force'
              ? [
                  'Kill everything that is left of this agent at once, without asking first',
                  'Give up obligations that cannot be met within 10 seconds, such as archiving a log, and name them in the report',
                ]
              : [
                  'Check each resource that is left',
                  'Meet its obligations, then ask, terminate and kill, as far as needed',
                  'Check again, and report it as released only when it is gone',
                ]
          }
          keeps={[
            `The agent in the list${mode === 'force' ? ' and its messages' : ', its messages and its archive'}`,
            'Everything that does not belong to this agent',
          ]}
          undo={
            mode === 'force'
              ? 'Not possible: what is given up cannot be restored.'
              : 'Not needed: only resources that were due for release are removed.'
          }
          action={mode === 'force' ? 'Force' : 'Try again'}
          isDangerous={mode === 'force'}
          progress="Closing. This can take ten seconds…"
          run={() => run(mode === 'force')}
          onClose={() => setMode(undefined)}
          failure={(error) => <Failure error={error} />}
        />
      )}
    </div>
  )
}

class NotClean extends Error {
  readonly report: Report

  constructor(report: Report) {
    super('Some resources are not gone yet.')
    this.report = report
  }
}

function Failure({ error }: { readonly error: unknown }) {
  // Without a report the result is unknown: the close may continue on the server.
  if (!(error instanceof NotClean)) return <Problem>The result is unknown: {sentenceOf(error)}</Problem>
  return (
    <Problem>
      Still present:
      <ul>
        {error.report.errors
          .filter((message) => !isWaiting({ error: message }))
          .map((message) => (
            <li key={message}>{oneLine(message, 400)}</li>
          ))}
      </ul>
    </Problem>
  )
}
