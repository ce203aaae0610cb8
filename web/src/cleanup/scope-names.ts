import { useSyncExternalStore } from 'react'
import { nameOf } from '../agents/names.ts'
import { fetchAgentPage } from '../api/calls.ts'
import { useLive } from '../api/live.ts'
import { useLoaded } from '../api/loaded.ts'
import type { Agent } from '../api/shapes.ts'
import { shortId } from '../pieces/format.ts'

/**
 * Display names of closed scopes. Names of agents are remembered while the page is open, because a close is still shown after its
 * agent's row was deleted. An agent that is not among the newest ones is looked up once, and is then shown by its id.
 */

export interface ScopeName {
  readonly text: string
  /** True for a name that the user gave, or the beginning of a prompt; false for a name made from kind and id. */
  readonly isName: boolean
}

export type ScopeNames = (scope: { readonly kind: string; readonly id: string }) => ScopeName

const fetchedAtOnce = 500
const mostRemembered = 5_000
const longestName = 90

const names = new Map<string, string>()
const lookedUp = new Set<string>()
const listeners = new Set<() => void>()
let version = 0

/** Records the names of agents. `agents` is newest first, as the server lists them. */
export function remember(agents: readonly Agent[]): void {
  for (const agent of agents.toReversed()) {
    names.delete(agent.id)
    names.set(agent.id, nameOf(agent, longestName))
  }
  for (const id of names.keys()) {
    if (names.size <= mostRemembered) break
    names.delete(id)
  }
  version += 1
  for (const listener of listeners) listener()
}

export async function fetchNewest(signal: AbortSignal): Promise<readonly Agent[]> {
  const { agents } = await fetchAgentPage(fetchedAtOnce, undefined, signal)
  remember(agents)
  return agents
}

function listen(listener: () => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

/** Returns a function that names scopes. It loads the names of the given agents if they are not known yet. */
export function useScopeNames(scopes: readonly { readonly kind: string; readonly id: string }[]): ScopeNames {
  useSyncExternalStore(listen, () => version)
  useLive<{ readonly agent: Agent }>('agent:created', ({ agent }) => remember([agent]))
  const missing = scopes.filter(({ kind, id }) => kind === 'agent' && !names.has(id) && !lookedUp.has(id))
  useLoaded(
    'names',
    async (signal) => {
      await fetchNewest(signal)
      for (const { id } of missing) lookedUp.add(id)
      return missing.length
    },
    { isPaused: missing.length === 0 },
  )
  return scopeNameOf
}

function scopeNameOf({ kind, id }: { readonly kind: string; readonly id: string }): ScopeName {
  if (kind === 'host') return { text: 'everything', isName: false }
  const fallback = `${kind} ${shortId(id)}`
  const text = (kind === 'agent' ? names.get(id) : undefined) ?? fallback
  return { text, isName: text !== fallback }
}
