import { useEffect, useId, useRef, useState } from 'react'
import { nameOf } from '../agents/names.ts'
import { call } from '../api/client.ts'
import { endAll, type Health, resetEnvironment, type SystemStatus } from '../api/closes.ts'
import { type Labels, useLabels } from '../api/labels.tsx'
import { onLive } from '../api/live.ts'
import { useLoaded } from '../api/loaded.ts'
import type { Agent } from '../api/shapes.ts'
import { CloseBody, titleOf } from '../cleanup/close.tsx'
import { useScopeNames } from '../cleanup/scope-names.ts'
import { useClose } from '../cleanup/use-close.ts'
import { Confirm } from '../pieces/confirm.tsx'
import { plural } from '../pieces/format.ts'
import { Problem, Progress } from '../pieces/notes.tsx'
import { hrefOf } from '../routing.ts'

export interface ResetProps {
  readonly health: Health
  readonly status: SystemStatus
  /** True if `status` belongs to the chosen namespace; false while it is still that of the previous one. */
  readonly isReady: boolean
  readonly namespace: string | undefined
  /** Called with the id of the close that performs the reset. */
  readonly onStarted: (id: string) => void
}

const namedAtMost = 8
const countedAtMost = 500

/** The active agents. Loaded only when the dialog is open. */
const fetchActive = (namespace: string | undefined, signal: AbortSignal): Promise<readonly Agent[]> =>
  call('GET', '/agents/active', { query: { limit: countedAtMost, namespace }, signal })

/** Ends everything in one namespace or in all. The dialog lists what ends; then the close is shown live. */
export function ResetButton(props: ResetProps) {
  const [isConfirming, setConfirming] = useState(false)
  return (
    <>
      <button type="button" className="button" onClick={() => setConfirming(true)} disabled={!props.isReady}>
        {props.health.testEndpoints ? 'Reset…' : 'End everything…'}
      </button>
      {isConfirming && <ResetDialog {...props} onClose={() => setConfirming(false)} />}
    </>
  )
}

function ResetDialog({ health, status, namespace, onStarted, onClose }: ResetProps & { readonly onClose: () => void }) {
  const [typed, setTyped] = useState('')
  const labels = useLabels()
  const field = useId()
  const { testEndpoints } = health
  const whole = namespace === undefined ? 'all namespaces' : `the namespace ${namespace}`
  const loaded = useLoaded(`active ${namespace ?? '*'}`, (signal) => fetchActive(namespace, signal), {
    on: ['agent:created', 'agent:terminated'],
  })
  const active = loaded.data
  // If the active agents are not known, assume that there are some.
  const isActive = active === undefined || active.length > 0 || status.runningProcesses > 0
  const word = namespace ?? 'everything'
  const start = async (): Promise<void> => {
    onStarted(testEndpoints ? (await resetEnvironment(namespace)).id : await startEnding(namespace))
  }
  return (
    <Confirm
      title={testEndpoints ? `Reset ${whole}` : `End everything in ${whole}`}
      does={[
        ...releasesOf(status, active, labels),
        ...(testEndpoints
          ? [`Delete ${plural(status.agentCount, 'agent record')}, ${plural(status.messageCount, 'message')}, and the archived logs`]
          : []),
        'Check the system afterwards, and report it as clean only if nothing was found',
      ]}
      keeps={[
        ...(testEndpoints ? [] : ['The agent records, their messages, and the archived logs']),
        'The audit trail, including this close',
        ...(namespace === undefined ? [] : ['All other namespaces']),
        'Everything that another running Ebb holds, and everything that Ebb did not create',
      ]}
      undo={
        testEndpoints
          ? 'Not possible: rows and archives are deleted. (This server has test endpoints, so a reset also deletes the records.)'
          : 'Not possible: an ended agent cannot be resumed, but it can be launched again.'
      }
      action={testEndpoints ? 'Reset' : 'End everything'}
      isDangerous
      progress="Starting…"
      run={start}
      onClose={onClose}
      isBlocked={(active === undefined && loaded.error === undefined) || (isActive && typed.trim() !== word)}
    >
      {loaded.sentence !== undefined && <Problem onRetry={loaded.reload}>{loaded.sentence}</Problem>}
      {isActive && (
        <div className="field reset__confirmation">
          <label className="field__label" htmlFor={field}>
            Agents or processes are running. Type <code>{word}</code> to continue.
          </label>
          <input id={field} value={typed} onChange={({ target }) => setTyped(target.value)} autoComplete="off" spellCheck={false} />
        </div>
      )}
    </Confirm>
  )
}

function releasesOf(status: SystemStatus, active: readonly Agent[] | undefined, { kindTitle }: Labels): readonly string[] {
  const kinds = Object.entries(status.resources).map(([kind, { held, closing, stuck }]) => `${held + closing + stuck} × ${kindTitle(kind)}`)
  return [
    endsOf(active),
    ...(status.runningProcesses > 0 ? [`End ${plural(status.runningProcesses, 'process', 'processes')}`] : []),
    ...(kinds.length > 0 ? [`Release ${kinds.join(', ')}`] : []),
  ]
}

function endsOf(active: readonly Agent[] | undefined): string {
  if (active === undefined) return 'End every running agent'
  if (active.length === 0) return 'End no agents: none is running'
  const named = active.slice(0, namedAtMost).map((agent) => nameOf(agent, 60))
  const more = active.length > namedAtMost ? ` and ${active.length - namedAtMost} more` : ''
  return `End ${plural(active.length, 'agent')}: ${named.join(', ')}${more}`
}

/** Starts the cleanup and returns its close id. The HTTP call answers only at the end, so the id is taken from the start event. */
function startEnding(namespace: string | undefined): Promise<string> {
  return new Promise((resolve, reject) => {
    const isOurs = ({ trigger, scope }: Started): boolean =>
      trigger === 'request-finished' &&
      (namespace === undefined ? scope.kind === 'host' : scope.kind === 'namespace' && scope.id === namespace)
    const stop = onLive<Started>('cleanup:started', (event) => {
      if (!isOurs(event)) return
      stop()
      resolve(event.id)
    })
    endAll(namespace).then(
      () => {
        stop()
        reject(new Error('The cleanup has finished, but its start event did not arrive. The Cleanup view has its report.'))
      },
      (error: unknown) => {
        stop()
        reject(error)
      },
    )
  })
}

interface Started {
  readonly id: string
  readonly trigger: string
  readonly scope: { readonly kind: string; readonly id: string }
}

/** The close of the reset, shown while it runs and until the user dismisses it. */
export function ResetProgress({ id, onClose }: { readonly id: string; readonly onClose: () => void }) {
  const watched = useClose(id)
  const { close, loaded } = watched
  const nameOfScope = useScopeNames(close ? [close.scope] : [])
  // If the server has died, its close sends no further event: stop showing it as running.
  const isRunning = close?.state === 'running' && loaded.error === undefined
  const section = useRef<HTMLElement>(null)
  useEffect(() => section.current?.focus(), [])
  return (
    <section className="reset" ref={section} tabIndex={-1} aria-label="Reset progress">
      <div className="reset__head">
        <h2>{close ? titleOf(close, nameOfScope) : 'Reset'}</h2>
        <a href={hrefOf('cleanup', id)}>Open its page</a>
        <button type="button" className="button" onClick={onClose} disabled={isRunning}>
          Done
        </button>
      </div>
      {close ? (
        <CloseBody watched={watched} close={close} />
      ) : loaded.sentence === undefined ? (
        <Progress>Starting…</Progress>
      ) : (
        <Problem onRetry={loaded.reload}>{loaded.sentence}</Problem>
      )}
    </section>
  )
}
