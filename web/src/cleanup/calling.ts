import { useSyncExternalStore } from 'react'
import { nameOf } from '../agents/names.ts'
import { fetchAgentPage } from '../api/calls.ts'
import { useLive } from '../api/live.ts'
import { useLoaded } from '../api/loaded.ts'
import type { Agent } from '../api/shapes.ts'
import { shortId } from '../pieces/format.ts'

/**
 * What that is called which was closed. Names of agents are remembered while the page is open: a close is still looked at when
 * its agent's row is gone. Who is not among the newest agents is sought once, and then goes by its id.
 */

export interface Called {
  readonly text: string
  /** A person gave it, or it is how a prompt begins; else it is what Ebb calls it. */
  readonly isName: boolean
}

export type Calling = (scope: { readonly kind: string; readonly id: string }) => Called

const fetchedAtOnce = 500
const mostRemembered = 5_000
const longestName = 90

const names = new Map<string, string>()
const sought = new Set<string>()
const listeners = new Set<() => void>()
let version = 0

/** Newest first, as the server lists them. */
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

/** For scopes that are shown: agents among them by their names, as soon as those are known. */
export function useCalling(scopes: readonly { readonly kind: string; readonly id: string }[]): Calling {
  useSyncExternalStore(listen, () => version)
  useLive<{ readonly agent: Agent }>('agent:created', ({ agent }) => remember([agent]))
  const missing = scopes.filter(({ kind, id }) => kind === 'agent' && !names.has(id) && !sought.has(id))
  useLoaded(
    'names',
    async (signal) => {
      await fetchNewest(signal)
      for (const { id } of missing) sought.add(id)
      return missing.length
    },
    { isOff: missing.length === 0 },
  )
  return called
}

function called({ kind, id }: { readonly kind: string; readonly id: string }): Called {
  if (kind === 'host') return { text: 'everything', isName: false }
  const plain = `${kind} ${shortId(id)}`
  const text = (kind === 'agent' ? names.get(id) : undefined) ?? plain
  return { text, isName: text !== plain }
}
