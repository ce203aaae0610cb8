import type { Control } from '../../../control/control.ts'
import { within } from '../../../engine/race.ts'
import type { ProviderCatalogue } from '../../../ports/provider.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'

export interface Vitals {
  readonly instanceId: string
  readonly startedAt: string
  readonly containment: string
  readonly port: () => number
  /** What of the foundations is broken, besides the store. */
  readonly problems: () => readonly string[]
}

/** A store that does not answer a question this small in that time is not connected. */
const storePatienceMs = 2_000

export function serverRoutes(control: Control, catalogue: ProviderCatalogue, vitals: Vitals): readonly Route[] {
  return [
    route({
      method: 'GET',
      path: '/health',
      summary: 'Is the server well; 503 when its store, sentinel or containment is broken',
      answers: { 200: schemas.health, 503: schemas.health },
      handle: async ({ reply }) => {
        const counted = await count(control)
        const problems = [...vitals.problems(), ...(counted ? [] : ['The database does not answer.'])]
        if (problems.length > 0) reply.code(503)
        return {
          status: problems.length > 0 ? 'broken' : 'ok',
          pid: process.pid,
          uptime: process.uptime(),
          memoryUsage: process.memoryUsage(),
          activeAgents: control.agents.living.size,
          totalAgents: counted?.total ?? 0,
          databaseStatus: counted ? 'connected' : 'unavailable',
          startedAt: vitals.startedAt,
          port: vitals.port(),
          nodeVersion: process.version,
          instanceId: vitals.instanceId,
          containment: vitals.containment,
          stuck: counted?.stuck ?? 0,
          ...(problems.length > 0 && { problems }),
        }
      },
    }),
    route({
      method: 'GET',
      path: '/providers',
      summary: 'The agent programs that this server knows, and which are installed',
      answers: { 200: schemas.providers },
      handle: async () => {
        const providers = await catalogue.describe()
        return { totalCount: providers.length, providers }
      },
    }),
  ]
}

async function count({ store, engine }: Control): Promise<{ total: number; stuck: number } | undefined> {
  const { clock, ledger } = engine.parts
  const work = Promise.all([store.totals(undefined, new Set()), ledger.books(undefined, 'open')])
  const answer = await within(clock, storePatienceMs, work).catch(() => ({ timedOut: true }) as const)
  if (answer.timedOut) return undefined
  const [totals, books] = answer.value
  return { total: totals.agents, stuck: books.resources.filter(({ state }) => state === 'stuck').length }
}
