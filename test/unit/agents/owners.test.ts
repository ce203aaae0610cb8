import { expect, it } from 'vitest'
import { Owners, type OwnersDeps } from '../../../src/agents/owners.ts'

/** Creates `Owners` for a request that is in the ledger and not in the scope registry of this process. */
function ownersOf(state: 'open' | 'closed'): Owners {
  const engine = { inspect: () => undefined }
  const store = { findOwner: async () => ({ scopeId: 'request-1', state }) }
  return new Owners({ engine, store } as unknown as OwnersDeps)
}

it.each([
  ['open', /belongs to another Ebb process, which may have died, and accepts no agents/],
  ['closed', /is closed and accepts no agents/],
] as const)('owners: a launch into a request that is %s in another process is refused with the reason', async (state, message) => {
  const entering = ownersOf(state).enter({ kind: 'request', namespace: 'default', id: 'r' })
  await expect(entering).rejects.toMatchObject({ code: 'scope_closed', message: expect.stringMatching(message) })
})
