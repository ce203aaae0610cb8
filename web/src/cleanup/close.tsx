import { useRef, useState } from 'react'
import { fetchResources } from '../api/calls.ts'
import { ApiError } from '../api/client.ts'
import type { CloseDetail } from '../api/closes.ts'
import { useLoaded } from '../api/loaded.ts'
import { oneLine } from '../pieces/format.ts'
import { Empty, Problem, Progress } from '../pieces/notes.tsx'
import { ViewHead } from '../pieces/view-head.tsx'
import { hrefOf, hrefOfList } from '../routing.ts'
import { type ScopeNames, useScopeNames } from './scope-names.ts'
import { Summary } from './summary.tsx'
import type { Row } from './timeline.ts'
import { TryAgain } from './try-again.tsx'
import { isNotFound, useClose, type WatchedClose } from './use-close.ts'
import { useFrames } from './use-frames.ts'
import { Waterfall } from './waterfall.tsx'

/** The page of one close: its scope, its steps, and its proofs. Live while the close runs. */
export function CloseView({ id }: { readonly id: string }) {
  const watched = useClose(id)
  const { close, loaded } = watched
  const nameOfScope = useScopeNames(close ? [close.scope] : [])
  const isMissing = !close && isNotFound(loaded.error)
  // The link back keeps the filters of the list.
  const [list] = useState(() => hrefOfList('cleanup'))
  const back = (
    <a className="back" href={list}>
      ← Cleanup
    </a>
  )
  return (
    <>
      <ViewHead title={close ? titleOf(close, nameOfScope) : 'Close'} above={back}>
        {close?.scope.kind === 'agent' && (
          <a className="button" href={hrefOf('agents', close.scope.id)}>
            Go to the agent
          </a>
        )}
      </ViewHead>
      {isMissing && (
        <Empty title="This close was not found.">
          <p>{loaded.sentence}</p>
          <p>
            <a href={hrefOf('cleanup')}>All closes</a>
          </p>
        </Empty>
      )}
      {loaded.sentence !== undefined && !isMissing && <Problem onRetry={loaded.reload}>{loaded.sentence}</Problem>}
      {!close && loaded.sentence === undefined && <Progress>Loading the close…</Progress>}
      {close && <CloseBody watched={watched} close={close} />}
    </>
  )
}

export function CloseBody({ watched, close }: { readonly watched: WatchedClose; readonly close: CloseDetail }) {
  const { rows, skewMs, loaded } = watched
  // If the server does not answer, it is unknown whether the close continues.
  const isRunning = close.state === 'running' && loaded.error === undefined
  const left = rows.filter(({ state }) => state === 'stuck' || state === 'held-back')
  const { report } = close
  const container = useRef<HTMLDivElement>(null)
  const nowMs = useFrames(container, Date.parse(close.startedAt) + skewMs, isRunning)
  return (
    <section className="close" aria-label="Close details" aria-busy={isRunning}>
      <Summary close={close} rows={rows} isRunning={isRunning} nowMs={nowMs} />
      {report !== undefined && report.gaveUp.length > 0 && (
        <div className="note note--bad">
          <div>
            Given up and lost:
            <ul>
              {[...new Set(report.gaveUp)].map((loss) => (
                <li key={loss}>{oneLine(loss, 400)}</li>
              ))}
            </ul>
          </div>
        </div>
      )}
      {!isRunning && left.length > 0 && close.scope.kind === 'agent' && <StillLeft agentId={close.scope.id} left={left} />}
      {close.errors.length > 0 && left.length === 0 && (
        <Problem>
          <ul>
            {[...new Set(close.errors)].map((error) => (
              <li key={error}>{oneLine(error, 400)}</li>
            ))}
          </ul>
        </Problem>
      )}
      {rows.length > 0 ? (
        <Waterfall container={container} nowMs={nowMs} rows={rows} isRunning={isRunning} />
      ) : (
        <p className="quiet">
          {isRunning ? 'No resource has been processed yet.' : 'No resources were found: the scope was already clean.'}
        </p>
      )}
    </section>
  )
}

/** The resources that this close could not release, as they are now: a later close may have released them. */
function StillLeft({ agentId, left }: { readonly agentId: string; readonly left: readonly Row[] }) {
  const now = useLoaded(`resources ${agentId}`, (signal) => fetchResources(agentId, signal), { on: ['cleanup:report'] })
  const isAgentDeleted = now.error instanceof ApiError && now.error.code === 'agent_not_found'
  const present = left.filter(({ key }) => now.data?.find(({ id }) => id === key)?.state !== 'released')
  if (isAgentDeleted || (now.data && present.length === 0))
    return <p className="note note--good">A later close released the resources that this close could not release.</p>
  return now.data ? <TryAgain agentId={agentId} left={present} /> : null
}

export function titleOf({ scope }: Pick<CloseDetail, 'scope'>, nameOfScope: ScopeNames): string {
  const { text, isName } = nameOfScope(scope)
  return `Close of ${isName ? `“${text}”` : text}`
}
