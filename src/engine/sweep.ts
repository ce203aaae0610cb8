import { sentence } from '../domain/errors.ts'
import type { Found, Owner } from '../ports/kind.ts'
import type { BookScope } from './book.ts'
import { releaseAll } from './close.ts'
import type { EngineParts } from './engine.ts'
import type { Flight } from './flight.ts'
import { noop, within } from './race.ts'
import type { Released } from './release.ts'

/**
 * After the waves: does the world hold anything of this scope that the book does not? It is adopted and released by
 * the same code, until a listing comes back empty or the deadline has come.
 */
export async function sweep(parts: EngineParts, scope: BookScope, flight: Flight): Promise<Released[]> {
  const results: Released[] = []
  const tree = new Set(parts.book.tree(scope.id).map((member) => member.id))
  const owner: Owner = {
    installation: parts.host.installation,
    incarnation: scope.incarnation,
    ...(scope.kind !== 'host' && { scopeIds: tree }),
  }
  // What already failed to go is reported once, by its own release; the sweep is for what nobody knew.
  const reported = new Set<string>()
  for (;;) {
    const listed = await listAll(parts, owner, flight)
    results.push(...listed.failures)
    const news = listed.found.filter(({ found }) => isNews(parts, found, tree) && !reported.has(found.resourceId))
    if (news.length === 0) return results
    for (const { kind, found } of news) {
      reported.add(found.resourceId)
      adopt(parts, scope, kind, found)
    }
    results.push(...(await releaseAll(parts, scope, flight)).filter((one) => one.report.outcome !== 'held-back'))
    if (flight.remainingMs() === 0) return results
  }
}

/** Not in the book, or in the book as released: the world says otherwise, and the world is right. */
function isNews(parts: EngineParts, found: Found, tree: ReadonlySet<string>): boolean {
  for (const id of tree) {
    const entry = parts.book.find(id)?.entries.get(found.resourceId)
    if (entry) return entry.state === 'released'
  }
  return true
}

export function adopt(parts: EngineParts, scope: BookScope, kind: string, found: Found): void {
  const intent = {
    id: found.resourceId,
    scopeId: scope.id,
    incarnation: found.incarnation,
    kind,
    spec: found.spec,
    dependsOn: [],
    onLoss: 'end',
  } as const
  const entry = parts.book.enter(scope, intent)
  entry.state = 'held'
  parts.ledger.adopt(scope.id, { ...intent, name: entry.name }).catch(noop)
  parts.log.warn(`Cleanup: adopted ${kind} ${entry.name}, which the ledger did not know.`, { scope: scope.id })
}

interface Listed {
  readonly found: { readonly kind: string; readonly found: Found }[]
  readonly failures: Released[]
}

/** A listing that fails is itself an unknown resource in the report: we cannot say that nothing is there (G4). */
export async function listAll(parts: EngineParts, owner: Owner, flight: Flight | undefined): Promise<Listed> {
  const found: Listed['found'] = []
  const failures: Released[] = []
  await Promise.all(
    [...parts.kinds.values()].map(async (kind) => {
      const lifetime = new AbortController()
      const collect = async (): Promise<void> => {
        for await (const one of kind.list(owner, { signal: lifetime.signal, clock: parts.clock }))
          found.push({ kind: kind.kind, found: one })
      }
      try {
        const done = await within(parts.clock, Math.max(listBudgetMs, flight?.remainingMs() ?? 0), collect())
        if (done.timedOut) throw new Error('the listing did not come back in time')
      } catch (error) {
        failures.push({ report: { kind: kind.kind, name: 'sweep', outcome: 'stuck', steps: [], error: sentence(error) }, gaveUp: [] })
      } finally {
        lifetime.abort()
      }
    }),
  )
  return { found, failures }
}

const listBudgetMs = 2_000
