import { sentence } from '../model/errors.ts'
import { scopeOfResource } from '../model/identity.ts'
import type { Intent } from '../model/resource.ts'
import type { Found, Owner, ResourceKind } from '../ports/kind.ts'
import type { CloseOperation } from './close-operation.ts'
import type { EngineParts } from './parts.ts'
import { backoffMs, noLongerNeeded, noop, pause, within } from './race.ts'
import type { Released } from './release.ts'
import type { Entry, OwnedScope } from './scope-registry.ts'
import { releaseAll } from './waves.ts'

/**
 * After the waves: does the world hold anything of this scope that the book does not? It is adopted and released by
 * the same code, until a listing comes back empty or the deadline has come.
 */
export async function sweep(parts: EngineParts, scope: OwnedScope, operation: CloseOperation): Promise<Released[]> {
  const results: Released[] = []
  const tree = new Set(parts.registry.tree(scope.id).map((member) => member.id))
  const owner: Owner = {
    installation: parts.host.installation,
    // What was adopted carries the mark of whoever made it.
    ...(isAllOwn(parts, scope) && { incarnation: scope.incarnation }),
    ...(scope.kind !== 'host' && { scopeIds: tree }),
  }
  for (let round = 1; ; round++) {
    const listed = await listAll(parts, owner, operation, (kind) => !kind.isRemote || hadSome(parts, tree, kind))
    const all = listed.found.filter(({ found }) => isNews(parts, found, tree))
    const inherited = all.length > 0 && isOfDead(parts, scope) ? await inheritedBy(parts, tree) : noneInherited
    if (inherited instanceof Error) return [...results, ...listed.failures, ...all.map((one) => cameBack(one, sentence(inherited)))]
    const news = all.filter(({ found }) => !inherited.has(found.resourceId))
    if (news.length === 0) return [...results, ...listed.failures]
    if (round > 1 && operation.remainingMs() === 0) {
      for (const { kind, found } of news) markStuck(adopt(parts, scope, kind, found))
      return [...results, ...listed.failures, ...news.map((one) => cameBack(one))]
    }
    // What keeps coming back is not chased without a breath.
    if (round > 1) await pause(parts.clock, Math.min(backoffMs(round), operation.remainingMs()), operation.changed)
    for (const { kind, found } of news) adopt(parts, scope, kind, found)
    results.push(...(await releaseAll(parts, scope, operation)).filter((one) => one.report.outcome !== 'held-back'))
  }
}

/** What is elsewhere is made by a plan that has an entry of its kind, or not at all: a process is not kept waiting by a cloud. */
function hadSome(parts: EngineParts, tree: ReadonlySet<string>, { kind }: ResourceKind): boolean {
  return [...tree].some((id) => [...(parts.registry.find(id)?.entries.values() ?? [])].some(({ intent }) => intent.kind === kind))
}

function isAllOwn(parts: EngineParts, scope: OwnedScope): boolean {
  if (scope.kind === 'host') return true
  return parts.registry
    .tree(scope.id)
    .every(({ entries, incarnation }) => [...entries.values()].every(({ intent }) => intent.incarnation === incarnation))
}

/** Of a host that a recovery closes, in place of one that is dead. */
function isOfDead({ host }: EngineParts, { kind, incarnation }: OwnedScope): boolean {
  return kind === 'host' && incarnation !== host.incarnationId
}

const noneInherited: ReadonlySet<string> = new Set()

/**
 * What was adopted from a dead supervisor, by whichever server, carries that one's mark for ever: whose it is now only the ledger
 * knows. One that cannot be read is no leave to end them (G10).
 */
async function inheritedBy({ ledger }: EngineParts, tree: ReadonlySet<string>): Promise<ReadonlySet<string> | Error> {
  try {
    const { resources } = await ledger.contents(undefined, 'open')
    return new Set(resources.filter(({ scopeId, state }) => !tree.has(scopeId) && state !== 'released').map(({ id }) => id))
  } catch (error) {
    return new Error(`whose it is cannot be read: ${sentence(error)}`)
  }
}

const thereAgain = 'It was there again at the deadline.'

function cameBack({ kind, found }: Listed['found'][number], error = thereAgain): Released {
  return { report: { kind, name: found.name, outcome: 'stuck', steps: [], error }, gaveUp: [] }
}

/** The book must not say that it is released, nor its agent that it is only stopping (G11). */
function markStuck(entry: Entry): void {
  entry.state = 'stuck'
  entry.error = thereAgain
}

/** Not in the book, or in the book as released: the world says otherwise, and the world is right. What was adopted is elsewhere. */
function isNews(parts: EngineParts, found: Found, tree: ReadonlySet<string>): boolean {
  const owner = scopeOfResource(found.resourceId)
  if (!tree.has(owner) && parts.registry.find(owner)?.entries.has(found.resourceId)) return false
  for (const id of tree) {
    const entry = parts.registry.find(id)?.entries.get(found.resourceId)
    if (entry) return entry.state === 'released'
  }
  return true
}

export function adopt(parts: EngineParts, scope: OwnedScope, kind: string, found: Found): Entry {
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
  const entry = parts.registry.enter(scope, intent)
  entry.state = 'held'
  parts.ledger.adopt(scope.id, { ...intent, name: entry.name }).catch(noop)
  parts.log.warn(`Cleanup: adopted ${kind} ${entry.name}, which the ledger did not know.`, {
    ...(scope.closeRequest && { trigger: scope.closeRequest.trigger }),
    ...parts.registry.placeOf(scope),
  })
  return entry
}

/** Something that came back has one entry, not two: the old one would still say that it is released. */
function forgetEntry(parts: EngineParts, scope: OwnedScope, kind: string, resourceId: string): Intent | undefined {
  const owner = parts.registry.tree(scope.id).find((member) => member.entries.has(resourceId))
  const intent = owner?.entries.get(resourceId)?.intent
  owner?.entries.delete(resourceId)
  return intent?.kind === kind ? intent : undefined
}

interface Listed {
  readonly found: { readonly kind: string; readonly found: Found }[]
  readonly failures: Released[]
}

/** A listing that fails is itself an unknown resource in the report: we cannot say that nothing is there (G4). */
export async function listAll(
  parts: EngineParts,
  owner: Owner,
  operation: CloseOperation | undefined,
  isAsked: (kind: ResourceKind) => boolean = () => true,
): Promise<Listed> {
  const found: Listed['found'] = []
  const failures: Released[] = []
  await Promise.all(
    [...parts.kinds.values()].filter(isAsked).map(async (kind) => {
      const lifetime = new AbortController()
      const collect = async (): Promise<void> => {
        for await (const one of kind.list(owner, { signal: lifetime.signal, clock: parts.clock }))
          found.push({ kind: kind.kind, found: one })
      }
      try {
        const done = await within(
          parts.clock,
          Math.max(kind.isRemote ? remoteListMs : listBudgetMs, operation?.remainingMs() ?? 0),
          collect(),
        )
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
/** By pages, over a network, and again after it was throttled. */
const remoteListMs = 10_000
