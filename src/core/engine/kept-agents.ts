import type { Scope } from '../model/scope.ts'
import type { LedgerContents } from '../ports/ledger.ts'
import type { Kept } from './api.ts'
import type { EngineParts } from './parts.ts'

/** Agents that outlive their supervisor: all of their resources have `onLoss: keep`. The next server adopts them. */

/**
 * The kept agents of a dead supervisor: those whose launch was complete and which no request had asked to end. A recovery ends all others.
 */
export function keptAgents({ scopes, resources }: LedgerContents): readonly Kept[] {
  return scopes
    .filter(({ kind, state }) => kind === 'agent' && state === 'open')
    .map((scope) => ({ scope, resources: resources.filter(({ scopeId }) => scopeId === scope.id) }))
    .filter((kept) => kept.resources.length > 0 && kept.resources.every(({ onLoss, state }) => onLoss === 'keep' && state === 'held'))
}

/**
 * The scopes that a recovery leaves open: kept agents that are still running, and all scopes above them. The exit of an agent that has
 * ended meanwhile is stored in its row, for the close that follows.
 */
export async function spared(parts: EngineParts, kept: readonly Kept[], scopes: readonly Scope[]): Promise<ReadonlySet<string>> {
  const ids = new Set<string>()
  for (const agent of kept) {
    const exit = await exitOf(parts, agent)
    if (exit) await parts.endings.exited(agent.scope.id, exit)
    else for (let scope: Scope | undefined = agent.scope; scope; scope = parentOf(scope, scopes)) ids.add(scope.id)
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
