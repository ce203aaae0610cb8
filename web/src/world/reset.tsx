import { useEffect, useId, useRef, useState } from 'react'
import { nameOf } from '../agents/names.ts'
import { call } from '../api/client.ts'
import { endAll, type Health, resetEnvironment, type WorldStatus } from '../api/closes.ts'
import { onLive } from '../api/live.ts'
import { useLoaded } from '../api/loaded.ts'
import type { Agent } from '../api/shapes.ts'
import { useCalling } from '../cleanup/calling.ts'
import { CloseBody, titleOf } from '../cleanup/close.tsx'
import { useClose } from '../cleanup/use-close.ts'
import { Confirm } from '../pieces/confirm.tsx'
import { plural } from '../pieces/format.ts'
import { Problem, Progress } from '../pieces/notes.tsx'
import { hrefOf } from '../routing.ts'

export interface ResetProps {
  readonly health: Health
  readonly status: WorldStatus
  /** Those numbers are of this namespace, and not of one that was looked at before. */
  readonly isReady: boolean
  readonly namespace: string | undefined
  /** With the id of the close that does it. */
  readonly onStarted: (id: string) => void
}

const namedAtMost = 8
const countedAtMost = 500

/** Who lives there; asked only when it is to be said. */
const fetchLiving = (namespace: string | undefined, signal: AbortSignal): Promise<readonly Agent[]> =>
  call('GET', '/agents/active', { query: { limit: countedAtMost, namespace }, signal })

/** Everything goes, of a namespace or of all: first what that is, by name, then the close itself, live. */
export function ResetButton(props: ResetProps) {
  const [isAsked, setAsked] = useState(false)
  return (
    <>
      <button type="button" className="button" onClick={() => setAsked(true)} disabled={!props.isReady}>
        {props.health.testEndpoints ? 'Reset…' : 'End everything…'}
      </button>
      {isAsked && <ResetDialog {...props} onClose={() => setAsked(false)} />}
    </>
  )
}

function ResetDialog({ health, status, namespace, onStarted, onClose }: ResetProps & { readonly onClose: () => void }) {
  const [typed, setTyped] = useState('')
  const field = useId()
  const { testEndpoints } = health
  const whole = namespace === undefined ? 'every namespace' : `the namespace ${namespace}`
  const loaded = useLoaded(`living ${namespace ?? '*'}`, (signal) => fetchLiving(namespace, signal), {
    on: ['agent:created', 'agent:terminated'],
  })
  const living = loaded.data
  // Who does not know who lives takes it that somebody does.
  const isAlive = living === undefined || living.length > 0 || status.runningProcesses > 0
  const word = namespace ?? 'everything'
  const start = async (): Promise<void> => {
    onStarted(testEndpoints ? (await resetEnvironment(namespace)).id : await startEnding(namespace))
  }
  return (
    <Confirm
      title={testEndpoints ? `Reset ${whole}` : `End everything in ${whole}`}
      does={[
        ...goes(status, living),
        ...(testEndpoints
          ? [
              `Delete ${plural(status.agentCount, 'agent')} from the record, ${plural(status.messageCount, 'message')}, and the archives of their logs`,
            ]
          : []),
        'Look at the world afterwards, and say clean only when nothing was seen',
      ]}
      keeps={[
        ...(testEndpoints ? [] : ['The agents on record, their messages, and the archives of their logs']),
        'The audit trail: this close stands in it',
        ...(namespace === undefined ? [] : ['All other namespaces']),
        'What another living Ebb holds, and whatever is not ours',
      ]}
      undo={
        testEndpoints
          ? 'It cannot be undone: rows and archives are deleted. (This server has test endpoints, so a reset empties the record, too.)'
          : 'Agents that were ended cannot be had back; they can be launched again.'
      }
      action={testEndpoints ? 'Reset' : 'End everything'}
      isDangerous
      progress="It begins…"
      run={start}
      onClose={onClose}
      isBlocked={(living === undefined && loaded.error === undefined) || (isAlive && typed.trim() !== word)}
    >
      {loaded.sentence !== undefined && <Problem onRetry={loaded.reload}>{loaded.sentence}</Problem>}
      {isAlive && (
        <div className="field reset__word">
          <label className="field__label" htmlFor={field}>
            Something lives. Type <code>{word}</code> to go on.
          </label>
          <input id={field} value={typed} onChange={({ target }) => setTyped(target.value)} autoComplete="off" spellCheck={false} />
        </div>
      )}
    </Confirm>
  )
}

function goes(status: WorldStatus, living: readonly Agent[] | undefined): readonly string[] {
  const kinds = Object.entries(status.resources).map(([kind, { held, closing, stuck }]) => `${held + closing + stuck} ${kind}`)
  return [
    endsOf(living),
    ...(status.runningProcesses > 0 ? [`End ${plural(status.runningProcesses, 'process', 'processes')}`] : []),
    ...(kinds.length > 0 ? [`Release ${kinds.join(', ')}`] : []),
  ]
}

function endsOf(living: readonly Agent[] | undefined): string {
  if (living === undefined) return 'End every agent that lives'
  if (living.length === 0) return 'End no agent: none lives'
  const named = living.slice(0, namedAtMost).map((agent) => nameOf(agent, 60))
  const more = living.length > namedAtMost ? ` and ${living.length - namedAtMost} more` : ''
  return `End ${plural(living.length, 'agent')}: ${named.join(', ')}${more}`
}

/** The call answers at the end; by what it is known is told at its start. */
function startEnding(namespace: string | undefined): Promise<string> {
  return new Promise((resolve, reject) => {
    const isIt = ({ trigger, scope }: Started): boolean =>
      trigger === 'request-finished' &&
      (namespace === undefined ? scope.kind === 'host' : scope.kind === 'namespace' && scope.id === namespace)
    const stop = onLive<Started>('cleanup:started', (event) => {
      if (!isIt(event)) return
      stop()
      resolve(event.id)
    })
    endAll(namespace).then(
      () => {
        stop()
        reject(new Error('It is done, but its start was not heard; Cleanup has its report.'))
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

/** The close that was asked for, while it happens and until somebody has read its report. */
export function ResetProgress({ id, onClose }: { readonly id: string; readonly onClose: () => void }) {
  const watched = useClose(id)
  const { close, loaded } = watched
  const calling = useCalling(close ? [close.scope] : [])
  // Of a server that died nobody will hear how it ended.
  const isRunning = close?.state === 'running' && loaded.error === undefined
  const place = useRef<HTMLElement>(null)
  useEffect(() => place.current?.focus(), [])
  return (
    <section className="reset" ref={place} tabIndex={-1} aria-label="The reset">
      <div className="reset__head">
        <h2>{close ? titleOf(close, calling) : 'The reset'}</h2>
        <a href={hrefOf('cleanup', id)}>Its own page</a>
        <button type="button" className="button" onClick={onClose} disabled={isRunning}>
          Done
        </button>
      </div>
      {close ? (
        <CloseBody watched={watched} close={close} />
      ) : loaded.sentence === undefined ? (
        <Progress>It begins…</Progress>
      ) : (
        <Problem onRetry={loaded.reload}>{loaded.sentence}</Problem>
      )}
    </section>
  )
}
