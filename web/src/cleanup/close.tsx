import { useRef, useState } from 'react'
import { fetchResources } from '../api/calls.ts'
import { ApiError } from '../api/client.ts'
import type { CloseDetail } from '../api/closes.ts'
import { useLoaded } from '../api/loaded.ts'
import { oneLine } from '../pieces/format.ts'
import { Empty, Problem, Progress } from '../pieces/notes.tsx'
import { ViewHead } from '../pieces/view-head.tsx'
import { hrefOf, hrefOfList } from '../routing.ts'
import { type Calling, useCalling } from './calling.ts'
import { Summary } from './summary.tsx'
import type { Row } from './timeline.ts'
import { TryAgain } from './try-again.tsx'
import { isNowhere, useClose, type WatchedClose } from './use-close.ts'
import { useFrames } from './use-frames.ts'
import { Waterfall } from './waterfall.tsx'

/** One close: what it was about, how it went, and what proves it; live while it happens. */
export function CloseView({ id }: { readonly id: string }) {
  const watched = useClose(id)
  const { close, loaded } = watched
  const calling = useCalling(close ? [close.scope] : [])
  const isMissing = !close && isNowhere(loaded.error)
  // With the filters that one came from.
  const [list] = useState(() => hrefOfList('cleanup'))
  const back = (
    <a className="back" href={list}>
      ← Cleanup
    </a>
  )
  return (
    <>
      <ViewHead title={close ? titleOf(close, calling) : 'A close'} above={back}>
        {close?.scope.kind === 'agent' && (
          <a className="button" href={hrefOf('agents', close.scope.id)}>
            To the agent
          </a>
        )}
      </ViewHead>
      {isMissing && (
        <Empty title="This close is not here.">
          <p>{loaded.sentence}</p>
          <p>
            <a href={hrefOf('cleanup')}>All closes</a>
          </p>
        </Empty>
      )}
      {loaded.sentence !== undefined && !isMissing && <Problem onRetry={loaded.reload}>{loaded.sentence}</Problem>}
      {!close && loaded.sentence === undefined && <Progress>Looking for it…</Progress>}
      {close && <CloseBody watched={watched} close={close} />}
    </>
  )
}

export function CloseBody({ watched, close }: { readonly watched: WatchedClose; readonly close: CloseDetail }) {
  const { rows, skewMs, loaded } = watched
  // Of a server that does not answer nobody knows whether it goes on.
  const isRunning = close.state === 'running' && loaded.error === undefined
  const left = rows.filter(({ state }) => state === 'stuck' || state === 'held-back')
  const { report } = close
  const place = useRef<HTMLDivElement>(null)
  const nowMs = useFrames(place, Date.parse(close.startedAt) + skewMs, isRunning)
  return (
    <section className="close" aria-label="The close" aria-busy={isRunning}>
      <Summary close={close} rows={rows} isRunning={isRunning} nowMs={nowMs} />
      {report !== undefined && report.gaveUp.length > 0 && (
        <div className="note note--bad">
          <div>
            This was given up, and is lost:
            <ul>
              {[...new Set(report.gaveUp)].map((one) => (
                <li key={one}>{oneLine(one, 400)}</li>
              ))}
            </ul>
          </div>
        </div>
      )}
      {!isRunning && left.length > 0 && close.scope.kind === 'agent' && <LeftNow agentId={close.scope.id} left={left} />}
      {close.errors.length > 0 && left.length === 0 && (
        <Problem>
          <ul>
            {[...new Set(close.errors)].map((one) => (
              <li key={one}>{oneLine(one, 400)}</li>
            ))}
          </ul>
        </Problem>
      )}
      {rows.length > 0 ? (
        <Waterfall place={place} nowMs={nowMs} rows={rows} isRunning={isRunning} />
      ) : (
        <p className="quiet">{isRunning ? 'Nothing has moved yet.' : 'Nothing of it was in the world: it was already clean.'}</p>
      )}
    </section>
  )
}

/** A close is a thing of the past: what it left may have gone since. */
function LeftNow({ agentId, left }: { readonly agentId: string; readonly left: readonly Row[] }) {
  const now = useLoaded(`resources ${agentId}`, (signal) => fetchResources(agentId, signal), { on: ['cleanup:report'] })
  const isForgotten = now.error instanceof ApiError && now.error.code === 'agent_not_found'
  const there = left.filter(({ key }) => now.data?.find(({ id }) => id === key)?.state !== 'released')
  if (isForgotten || (now.data && there.length === 0))
    return <p className="note note--good">What this close could not release was proven gone by a later one.</p>
  return now.data ? <TryAgain agentId={agentId} left={there} /> : null
}

export function titleOf({ scope }: Pick<CloseDetail, 'scope'>, calling: Calling): string {
  const { text, isName } = calling(scope)
  return `Close of ${isName ? `“${text}”` : text}`
}
