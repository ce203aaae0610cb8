import { nameOf } from '../agents/names.ts'
import { type Close, fetchNotReleased, type NotReleased } from '../api/closes.ts'
import { useLoaded } from '../api/loaded.ts'
import type { AgentResource } from '../api/shapes.ts'
import { moment } from '../pieces/format.ts'
import { Problem } from '../pieces/notes.tsx'
import { hrefOf } from '../routing.ts'
import { TryAgain } from './try-again.tsx'

/** The resources that could not be released, by agent, each with the reason and the time since when. Renders nothing if there are none. */
export function StuckList({ closes }: { readonly closes: readonly Close[] | undefined }) {
  const { data, sentence, reload } = useLoaded('not released', fetchNotReleased, { on: ['cleanup:report'] })
  if (data === undefined && sentence !== undefined)
    return <Problem onRetry={reload}>Whether resources are stuck could not be read: {sentence}</Problem>
  if (data === undefined || data.length === 0) return null
  return (
    <section className="stuck" aria-label="Stuck resources">
      <h2>{titleOf(data)}</h2>
      {data.map(({ agent, left, problem }) => (
        <div key={agent.id} className="stuck__agent">
          <a href={hrefOf('agents', agent.id)}>
            {nameOf(agent, 90)} ({agent.type})
          </a>
          {problem === undefined ? (
            <TryAgain
              agentId={agent.id}
              left={left.length > 0 ? left : [{ kind: 'Archive', name: agent.id, error: 'The archive could not be removed.' }]}
              isRetrying={closes?.some(({ scope, state }) => scope.id === agent.id && state === 'running') ?? false}
              {...sinceOf(closes ?? [], agent.id)}
            />
          ) : (
            <Problem onRetry={reload}>Its resources could not be read: {problem}</Problem>
          )}
        </div>
      ))}
    </section>
  )
}

function titleOf(agents: readonly NotReleased[]): string {
  const known = agents.filter(({ problem }) => problem === undefined)
  if (known.length === 0) return 'Not known whether resources are stuck'
  return `${stateTextOf(known.flatMap(({ left }) => left))}: retried automatically; you can also retry now`
}

/** An agent that is stuck without any resource left has a stuck archive, so an empty list means "Stuck". */
function stateTextOf(left: readonly AgentResource[]): string {
  const heldBack = left.filter(({ state }) => state !== 'stuck').length
  if (heldBack === 0) return 'Stuck'
  return heldBack === left.length ? 'Held back' : 'Stuck and held back'
}

/** The start of the first failed close after the last successful one. */
function sinceOf(closes: readonly Close[], agentId: string): { readonly since?: string } {
  const ofAgent = closes.filter(({ scope, state }) => scope.id === agentId && state === 'done')
  const lastSuccess = ofAgent.findIndex(({ success }) => success)
  const first = (lastSuccess === -1 ? ofAgent : ofAgent.slice(0, lastSuccess)).at(-1)
  return first === undefined ? {} : { since: moment(first.startedAt) }
}
