import { nameOf } from '../agents/names.ts'
import { type Close, fetchNotReleased } from '../api/closes.ts'
import { useLoaded } from '../api/loaded.ts'
import type { AgentResource } from '../api/shapes.ts'
import { moment } from '../pieces/format.ts'
import { hrefOf } from '../routing.ts'
import { TryAgain } from './try-again.tsx'

/** What could not be released, agent by agent, with since when and why; nothing at all when there is nothing. */
export function StuckList({ closes }: { readonly closes: readonly Close[] | undefined }) {
  const { data = [] } = useLoaded('not released', fetchNotReleased, { on: ['cleanup:report'] })
  if (data.length === 0) return null
  return (
    <section className="stuck" aria-label="What is stuck">
      <h2>{whatOf(data.flatMap(({ left }) => left))}: it is tried again by itself, and now if you like</h2>
      {data.map(({ agent, left }) => (
        <div key={agent.id} className="stuck__agent">
          <a href={hrefOf('agents', agent.id)}>
            {nameOf(agent, 90)} ({agent.type})
          </a>
          <TryAgain
            agentId={agent.id}
            left={left.length > 0 ? left : [{ kind: 'archive', name: agent.id, error: 'It could not be removed.' }]}
            isTried={closes?.some(({ scope, state }) => scope.id === agent.id && state === 'running') ?? false}
            {...sinceOf(closes ?? [], agent.id)}
          />
        </div>
      ))}
    </section>
  )
}

/** Of an agent that is stuck with nothing left the archive is stuck. */
function whatOf(left: readonly AgentResource[]): string {
  const heldBack = left.filter(({ state }) => state !== 'stuck').length
  if (heldBack === 0) return 'Stuck'
  return heldBack === left.length ? 'Held back' : 'Stuck and held back'
}

/** Since the first of the failed closes that no good one came after. */
function sinceOf(closes: readonly Close[], agentId: string): { readonly since?: string } {
  const own = closes.filter(({ scope, state }) => scope.id === agentId && state === 'done')
  const good = own.findIndex(({ success }) => success)
  const first = (good === -1 ? own : own.slice(0, good)).at(-1)
  return first === undefined ? {} : { since: moment(first.startedAt) }
}
