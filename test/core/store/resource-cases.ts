import { expect, it } from 'vitest'
import type { Store } from './connections.ts'
import { holdResources, intent, openAgent, proof, released, resourceOf, scopeOf, settlement, statesOf } from './records.ts'

const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

export function resourceCases(store: Store): void {
  intending(store)
  holding(store)
  adopting(store)
}

function intending(store: Store): void {
  it('an intent is on the books before anything exists, with all that is needed to find the resource again (G1)', async () => {
    await openAgent(store.ledger)
    const planned = intent('agent', 1, { spec: { path: 'ä "b"\n', deep: [1, { c: null }] }, dependsOn: ['agent.2'], onLoss: 'keep' })
    await store.ledger.intend('agent', [planned])
    const { intendedAt, ...rest } = (await resourceOf(store.ledger, 'agent.1')) ?? expect.unreachable()
    expect(rest).toEqual({ ...planned, state: 'intended', attempts: 0 })
    expect(intendedAt).toMatch(isoTime)
  })

  it.each(['closing', 'closed', 'forgotten'])('a scope that is %s takes nothing in (G13)', async (how) => {
    await openAgent(store.ledger)
    if (how === 'closing') await store.ledger.beginClose('agent', { trigger: 'terminated' })
    else await store.ledger.settle(settlement({ closedScopeIds: ['agent'], forgottenScopeIds: how === 'forgotten' ? ['agent'] : [] }))
    await expect(store.ledger.intend('agent', [intent('agent', 1), intent('agent', 2)])).rejects.toMatchObject({ code: 'scope_closed' })
    expect((await store.ledger.contents()).resources).toEqual([])
  })

  it('a plan that arrives in the same turn after the close is refused as a whole (G13)', async () => {
    await openAgent(store.ledger)
    const [, plan] = await Promise.allSettled([
      store.ledger.beginClose('agent', { trigger: 'terminated' }),
      store.ledger.intend('agent', [intent('agent', 1), intent('agent', 2)]),
    ])
    expect(plan).toMatchObject({ status: 'rejected', reason: { code: 'scope_closed' } })
    expect((await store.ledger.contents()).resources).toEqual([])
  })

  it('a plan that arrives in the same turn before the close is on the books of the closing scope', async () => {
    await openAgent(store.ledger)
    await Promise.all([store.ledger.intend('agent', [intent('agent', 1)]), store.ledger.beginClose('agent', { trigger: 'terminated' })])
    expect(await statesOf(store.ledger)).toMatchObject({ agent: 'closing', 'agent.1': 'intended' })
  })

  it('a plan raced with a close from elsewhere is either refused or known to the close (G13)', async () => {
    const other = await store.reopen()
    for (let round = 0; round < 20; round++) {
      const agent = `agent${round}`
      await openAgent(store.ledger, agent)
      const plan = store.ledger.intend(agent, [intent(agent, 1), intent(agent, 2)])
      const [planned] = await Promise.allSettled([plan, other.beginClose(agent, { trigger: 'terminated' })])
      const known = (await other.contents()).resources.filter(({ scopeId }) => scopeId === agent)
      expect(known).toHaveLength(planned.status === 'fulfilled' ? 2 : 0)
      await expect(store.ledger.intend(agent, [intent(agent, 3)])).rejects.toMatchObject({ code: 'scope_closed' })
    }
  })

  it('a plan of which one intent cannot be written is not written at all', async () => {
    await openAgent(store.ledger)
    const plan = [intent('agent', 1), intent('agent', 2, { spec: { size: 1n } }), intent('agent', 3)]
    await expect(store.ledger.intend('agent', plan)).rejects.toThrow()
    expect((await store.ledger.contents()).resources).toEqual([])
  })

  it('an intent never takes the place of a resource that is on the books', async () => {
    await holdResources(store.ledger, 'agent', 1)
    await store.ledger.record('agent.1', { inode: '7' })
    await expect(store.ledger.intend('agent', [intent('agent', 2), intent('agent', 1)])).rejects.toThrow()
    expect(await resourceOf(store.ledger, 'agent.1')).toMatchObject({ state: 'held', detail: { inode: '7' } })
    expect(await resourceOf(store.ledger, 'agent.2')).toBeUndefined()
  })

  it('a plan belongs to the scope it was asked for, whatever its intents say (G13)', async () => {
    await openAgent(store.ledger, 'agent')
    await openAgent(store.ledger, 'closed')
    await store.ledger.beginClose('closed', { trigger: 'completed' })
    await store.ledger.intend('agent', [intent('closed', 1)])
    expect(await resourceOf(store.ledger, 'closed.1')).toMatchObject({ scopeId: 'agent' })
  })
}

function holding(store: Store): void {
  it('a detail that the world told in the middle of a creation is kept, and the resource is still intended', async () => {
    await openAgent(store.ledger)
    await store.ledger.intend('agent', [intent('agent', 1)])
    await store.ledger.record('agent.1', { inode: '42', bornNs: '1763197200123456789' })
    expect(await resourceOf(store.ledger, 'agent.1')).toMatchObject({
      state: 'intended',
      detail: { inode: '42', bornNs: '1763197200123456789' },
    })
  })

  it('held resources say since when; those that say nothing new keep the detail they had', async () => {
    await openAgent(store.ledger)
    await store.ledger.intend('agent', [intent('agent', 1), intent('agent', 2), intent('agent', 3)])
    await store.ledger.record('agent.1', { pid: 1 })
    await store.ledger.record('agent.2', { pid: 2 })
    await store.ledger.hold([{ resourceId: 'agent.1' }, { resourceId: 'agent.2', detail: { pid: 22 } }])
    expect(await resourceOf(store.ledger, 'agent.1')).toMatchObject({
      state: 'held',
      detail: { pid: 1 },
      heldAt: expect.stringMatching(isoTime),
    })
    expect(await resourceOf(store.ledger, 'agent.2')).toMatchObject({ state: 'held', detail: { pid: 22 } })
    expect(await resourceOf(store.ledger, 'agent.3')).toMatchObject({ state: 'intended' })
  })

  it('a creation that comes back after the close began does not look held again', async () => {
    await holdResources(store.ledger, 'agent', 1)
    await store.ledger.intend('agent', [intent('agent', 2)])
    await store.ledger.beginClose('agent', { trigger: 'terminated' })
    await store.ledger.hold([{ resourceId: 'agent.1', detail: { pid: 7 } }, { resourceId: 'agent.2' }])
    expect(await resourceOf(store.ledger, 'agent.1')).toMatchObject({ state: 'closing', detail: { pid: 7 } })
    expect(await resourceOf(store.ledger, 'agent.2')).toMatchObject({ state: 'closing' })
  })

  it.each(['released', 'stuck'] as const)('a creation that comes back after the resource was %s does not change that', async (state) => {
    await holdResources(store.ledger, 'agent', 1)
    await store.ledger.beginClose('agent', { trigger: 'terminated' })
    await store.ledger.settle(settlement({ outcomes: [released('agent.1', { state })] }))
    await store.ledger.hold([{ resourceId: 'agent.1' }])
    expect(await resourceOf(store.ledger, 'agent.1')).toMatchObject({ state, proof })
  })
}

function adopting(store: Store): void {
  it('something of ours that nobody knew goes on the books as held, in the scope that found it', async () => {
    await openAgent(store.ledger)
    await store.ledger.adopt('agent', intent('elsewhere', 1, { incarnation: 'dead' }))
    expect(await resourceOf(store.ledger, 'elsewhere.1')).toMatchObject({
      state: 'held',
      scopeId: 'agent',
      incarnation: 'dead',
      heldAt: expect.stringMatching(isoTime),
    })
  })

  it('something that was said to be released and is there again is held again, without its proof', async () => {
    await holdResources(store.ledger, 'agent', 1)
    await store.ledger.settle(settlement({ outcomes: [released('agent.1', { attempts: 3 })] }))
    await store.ledger.adopt('agent', intent('agent', 1))
    const adopted = await resourceOf(store.ledger, 'agent.1')
    expect(adopted).toMatchObject({ state: 'held' })
    expect(adopted).not.toHaveProperty('proof')
    expect(adopted).not.toHaveProperty('releasedAt')
  })

  it('a closing scope still takes in what the sweep found', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('agent', { trigger: 'terminated' })
    await store.ledger.adopt('agent', intent('agent', 9))
    expect(await resourceOf(store.ledger, 'agent.9')).toMatchObject({ scopeId: 'agent', state: 'held' })
    expect((await scopeOf(store.ledger, 'agent'))?.state).toBe('closing')
  })

  it('what is adopted by a scope that is gone is refused', async () => {
    await expect(store.ledger.adopt('gone', intent('gone', 1))).rejects.toMatchObject({ code: 'scope_closed' })
  })
}
