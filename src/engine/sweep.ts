import { sentence } from '../domain/errors.ts'
import { scopeOfResource } from '../domain/identity.ts'
import type { Intent } from '../domain/resource.ts'
import type { Found, Owner } from '../ports/kind.ts'
import type { BookScope } from './book.ts'
import { releaseAll } from './close.ts'
import type { EngineParts } from './engine.ts'
import type { Flight } from './flight.ts'
import { backoffMs, noLongerNeeded, noop, pause, within } from './race.ts'
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
    // What was adopted carries the mark of whoever made it.
    ...(isAllOwn(parts, scope) && { incarnation: scope.incarnation }),
    ...(scope.kind !== 'host' && { scopeIds: tree }),
  }
  for (let round = 1; ; round++) {
    const listed = await listAll(parts, owner, flight)
    const news = listed.found.filter(({ found }) => isNews(parts, found, tree))
    if (news.length === 0) return [...results, ...listed.failures]
    if (round > 1 && flight.remainingMs() === 0) return [...results, ...listed.failures, ...news.map(cameBack)]
    // What keeps coming back is not chased without a breath.
    if (round > 1) await pause(parts.clock, Math.min(backoffMs(round), flight.remainingMs()), flight.changed)
    for (const { kind, found } of news) adopt(parts, scope, kind, found)
    results.push(...(await releaseAll(parts, scope, flight)).filter((one) => one.report.outcome !== 'held-back'))
  }
}

function isAllOwn(parts: EngineParts, scope: BookScope): boolean {
  if (scope.kind === 'host') return true
  return parts.book
    .tree(scope.id)
    .every(({ entries, incarnation }) => [...entries.values()].every(({ intent }) => intent.incarnation === incarnation))
}

function cameBack({ kind, found }: Listed['found'][number]): Released {
  const error = 'It was there again at the deadline.'
  return { report: { kind, name: found.name, outcome: 'stuck', steps: [], error }, gaveUp: [] }
}

/** Not in the book, or in the book as released: the world says otherwise, and the world is right. What was adopted is elsewhere. */
function isNews(parts: EngineParts, found: Found, tree: ReadonlySet<string>): boolean {
  const owner = scopeOfResource(found.resourceId)
  if (!tree.has(owner) && parts.book.find(owner)?.entries.has(found.resourceId)) return false
  for (const id of tree) {
    const entry = parts.book.find(id)?.entries.get(found.resourceId)
    if (entry) return entry.state === 'released'
  }
  return true
}

export function adopt(parts: EngineParts, scope: BookScope, kind: string, found: Found): void {
  const known = forgetEntry(parts, scope, kind, found.resourceId)
  const intent: Intent = {
    id: found.resourceId,
    scopeId: scope.id,
    incarnation: found.incarnation,
    kind,
    spec: known?.spec ?? found.spec,
    ...(known?.detail !== undefined && { detail: known.detail }),
    dependsOn: [],
    onLoss: 'end',
  }
  const entry = parts.book.enter(scope, intent)
  entry.state = 'held'
  parts.ledger.adopt(scope.id, { ...intent, name: entry.name }).catch(noop)
  parts.log.warn(`Cleanup: adopted ${kind} ${entry.name}, which the ledger did not know.`, {
    ...(scope.wish && { trigger: scope.wish.trigger }),
    scope: scope.id,
  })
}

/** Something that came back has one entry, not two: the old one would still say that it is released. */
function forgetEntry(parts: EngineParts, scope: BookScope, kind: string, resourceId: string): Intent | undefined {
  const owner = parts.book.tree(scope.id).find((member) => member.entries.has(resourceId))
  const intent = owner?.entries.get(resourceId)?.intent
  owner?.entries.delete(resourceId)
  return intent?.kind === kind ? intent : undefined
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
        lifetime.abort(noLongerNeeded)
      }
    }),
  )
  return { found, failures }
}

const listBudgetMs = 2_000
