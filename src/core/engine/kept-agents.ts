import type { Scope } from '../model/scope.ts'
import type { LedgerContents } from '../ports/ledger.ts'
import type { Kept } from './api.ts'
import type { EngineParts } from './parts.ts'

/** What outlives a supervisor that is lost: agents whose every resource says `keep`. The next server adopts them. */

/** Only those whose launch was through, and which nobody had asked to end: the rest is as good as dead. */
export function keptAgents({ scopes, resources }: LedgerContents): readonly Kept[] {
  return scopes
    .filter(({ kind, state }) => kind === 'agent' && state === 'open')
    .map((scope) => ({ scope, resources: resources.filter(({ scopeId }) => scopeId === scope.id) }))
    .filter((kept) => kept.resources.length > 0 && kept.resources.every(({ onLoss, state }) => onLoss === 'keep' && state === 'held'))
}

/**
 * The scopes that a recovery leaves as they are: the kept agents, unless they have ended meanwhile, and all above them.
 * How one has ended goes into its row, for the close that follows.
 */
export async function spared(parts: EngineParts, kept: readonly Kept[], scopes: readonly Scope[]): Promise<ReadonlySet<string>> {
  const ids = new Set<string>()
  for (const one of kept) {
    const exit = await exitOf(parts, one)
    if (exit) await parts.endings.exited(one.scope.id, exit)
    else for (let scope: Scope | undefined = one.scope; scope; scope = parentOf(scope, scopes)) ids.add(scope.id)
  }
  return ids
}

async function exitOf({ registry }: EngineParts, { resources }: Kept): ReturnType<NonNullable<ReturnType<typeof registry.kind>['ended']>> {
  for (const resource of resources) {
    const kind = registry.kind(resource.kind)
    const exit = await kind.ended?.(kind.name(resource))
    if (exit) return exit
  }
  return undefined
}

function parentOf({ parentId }: Scope, scopes: readonly Scope[]): Scope | undefined {
  return scopes.find(({ id }) => id === parentId)
}
