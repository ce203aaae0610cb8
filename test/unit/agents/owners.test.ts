import { expect, it } from 'vitest'
import { Owners, type OwnersDeps } from '../../../src/agents/owners.ts'

/** A request that the ledger knows and this process has not in its book. */
function ownersOf(state: 'open' | 'closed'): Owners {
  const engine = { inspect: () => undefined }
  const store = { findOwner: async () => ({ scopeId: 'request-1', state }) }
  return new Owners({ engine, store } as unknown as OwnersDeps)
}

it.each([
  ['open', /belongs to another ebb, or to one that died, and takes no agent/],
  ['closed', /is closed and takes no agent/],
] as const)('a launch into a request that is %s elsewhere is refused, and told why', async (state, message) => {
  const entering = ownersOf(state).enter({ kind: 'request', namespace: 'default', id: 'r' })
  await expect(entering).rejects.toMatchObject({ code: 'scope_closed', message: expect.stringMatching(message) })
})
