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
 * Finds resources of this scope that exist although the registry does not have them, or has them as released. Such resources are adopted
 * and released like all others, until the listings come back empty or the deadline has come.
 */
export async function sweep(parts: EngineParts, scope: OwnedScope, operation: CloseOperation): Promise<Released[]> {
  const results: Released[] = []
  const tree = new Set(parts.registry.tree(scope.id).map((member) => member.id))
  const owner: Owner = {
    installation: parts.host.installation,
    // An adopted resource carries the mark of the incarnation that created it.
    ...(isAllOfOneIncarnation(parts, scope) && { incarnation: scope.incarnation }),
    ...(scope.kind !== 'host' && { scopeIds: tree }),
  }
  for (let round = 1; ; round++) {
    const listed = await listAll(parts, owner, operation, (kind) => !kind.isRemote || hadResourceOf(parts, tree, kind))
    const all = listed.found.filter(({ found }) => isUnexpected(parts, found, tree))
    const inherited = all.length > 0 && isOfDead(parts, scope) ? await inheritedBy(parts, tree) : noneInherited
    if (inherited instanceof Error) return [...results, ...listed.failures, ...all.map((one) => stuckReport(one, sentence(inherited)))]
    const unexpected = all.filter(({ found }) => !inherited.has(found.resourceId))
    if (unexpected.length === 0) return [...results, ...listed.failures]
    if (round > 1 && operation.remainingMs() === 0) {
      for (const { kind, found } of unexpected) markStuck(adopt(parts, scope, kind, found))
      return [...results, ...listed.failures, ...unexpected.map((one) => stuckReport(one))]
    }
    // There is a pause between rounds, because some resources keep coming back.
    if (round > 1) await pause(parts.clock, Math.min(backoffMs(round), operation.remainingMs()), operation.changed)
    for (const { kind, found } of unexpected) adopt(parts, scope, kind, found)
    results.push(...(await releaseAll(parts, scope, operation)).filter((one) => one.report.outcome !== 'held-back'))
  }
}

/**
 * True when one of the scopes had a resource of the kind. Remote resources come only from plans that contain their kind, so the close of a
 * local process need not wait for a remote service.
 */
function hadResourceOf(parts: EngineParts, tree: ReadonlySet<string>, { kind }: ResourceKind): boolean {
  return [...tree].some((id) => [...(parts.registry.find(id)?.entries.values() ?? [])].some(({ intent }) => intent.kind === kind))
}

function isAllOfOneIncarnation(parts: EngineParts, scope: OwnedScope): boolean {
  if (scope.kind === 'host') return true
  return parts.registry
    .tree(scope.id)
    .every(({ entries, incarnation }) => [...entries.values()].every(({ intent }) => intent.incarnation === incarnation))
}

/** True for the host scope of a dead supervisor, which a recovery closes. */
function isOfDead({ host }: EngineParts, { kind, incarnation }: OwnedScope): boolean {
  return kind === 'host' && incarnation !== host.incarnationId
}

const noneInherited: ReadonlySet<string> = new Set()

/**
 * Ids of resources that another server adopted from the dead supervisor. They keep the dead one's mark for ever, and only the ledger knows
 * their owner. If the ledger cannot be read, none of them may be ended (G10).
 */
async function inheritedBy({ ledger }: EngineParts, tree: ReadonlySet<string>): Promise<ReadonlySet<string> | Error> {
  try {
    const { resources } = await ledger.contents(undefined, 'open')
    return new Set(resources.filter(({ scopeId, state }) => !tree.has(scopeId) && state !== 'released').map(({ id }) => id))
  } catch (error) {
    return new Error(`its owner cannot be read from the ledger: ${sentence(error)}`)
  }
}

const foundAgain = 'It existed again at the deadline.'

function stuckReport({ kind, found }: Listed['found'][number], error = foundAgain): Released {
  return { report: { kind, name: found.name, outcome: 'stuck', steps: [], error }, gaveUp: [] }
}

/** Marks a resource that exists again as stuck. Otherwise the ledger would have it as released, and its agent as merely stopping (G11). */
function markStuck(entry: Entry): void {
  entry.state = 'stuck'
  entry.error = foundAgain
}

/**
 * True for a resource that the registry does not have, or has as released although it exists. False for a resource of another scope of
 * this process, for example after an adoption.
 */
function isUnexpected(parts: EngineParts, found: Found, tree: ReadonlySet<string>): boolean {
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
  // A failed write is ignored, because a kill needs no ledger (G12). A later listing then finds the resource again.
  parts.ledger.adopt(scope.id, { ...intent, name: entry.name }).catch(noop)
  parts.log.warn(`Cleanup: adopted ${kind} ${entry.name}, which was not in the ledger.`, {
    ...(scope.closeRequest && { trigger: scope.closeRequest.trigger }),
    ...parts.registry.placeOf(scope),
  })
  return entry
}

/** Removes the released entry of a resource that came back, because a second entry would contradict it. */
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

/**
 * Lists the resources of an owner. A listing that fails is a stuck entry in the report, because it cannot be said that nothing exists (G4).
 */
export async function listAll(
  parts: EngineParts,
  owner: Owner,
  operation: CloseOperation | undefined,
  isIncluded: (kind: ResourceKind) => boolean = () => true,
): Promise<Listed> {
  const found: Listed['found'] = []
  const failures: Released[] = []
  await Promise.all(
    [...parts.kinds.values()].filter(isIncluded).map(async (kind) => {
      const lifetime = new AbortController()
      const collect = async (): Promise<void> => {
        for await (const thing of kind.list(owner, { signal: lifetime.signal, clock: parts.clock }))
          found.push({ kind: kind.kind, found: thing })
      }
      try {
        const done = await within(
          parts.clock,
          Math.max(kind.isRemote ? remoteListBudgetMs : listBudgetMs, operation?.remainingMs() ?? 0),
          collect(),
        )
        if (done.timedOut) throw new Error('the listing did not finish in time')
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
/** The time limit for listing a kind on another host. Such a listing reads pages over a network, and is retried after throttling. */
const remoteListBudgetMs = 10_000
