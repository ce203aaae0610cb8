import { expect, it } from 'vitest'
import type { History } from '../../src/control/history.ts'
import type { Namespaces } from '../../src/control/namespaces.ts'
import { Owners } from '../../src/control/owners.ts'
import type { Engine } from '../../src/engine/engine.ts'
import type { AgentStore } from '../../src/ports/agents.ts'

/** A request that the ledger knows and this process has not in its book. */
function ownersOf(state: 'open' | 'closed'): Owners {
  const engine = { parts: { book: { find: () => undefined } } } as unknown as Engine
  const store = { findOwner: async () => ({ scopeId: 'request-1', state }) } as unknown as AgentStore
  return new Owners(engine, store, {} as Namespaces, {} as History)
}

it.each([
  ['open', /belongs to another ebb, or to one that died, and takes no agent/],
  ['closed', /is closed and takes no agent/],
] as const)('a launch into a request that is %s elsewhere is refused, and told why', async (state, message) => {
  const entering = ownersOf(state).enter({ kind: 'request', namespace: 'default', id: 'r' })
  await expect(entering).rejects.toMatchObject({ code: 'scope_closed', message: expect.stringMatching(message) })
})
