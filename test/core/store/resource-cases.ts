import { expect, it } from 'vitest'
import type { Store } from './connections.ts'
import { holdResources, intent, openAgent, proof, released, resourceOf, scope, scopeOf, settlement, statesOf } from './records.ts'

const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

export function resourceCases(store: Store): void {
  intending(store)
  holding(store)
  adopting(store)
}

function intending(store: Store): void {
  it('intend: the ledger has the intent before the resource exists, with everything to find it again (G1)', async () => {
    await openAgent(store.ledger)
    const planned = intent('agent', 1, { spec: { path: 'ä "b"\n', deep: [1, { c: null }] }, dependsOn: ['agent.2'], onLoss: 'keep' })
    await store.ledger.intend('agent', [planned])
    const { intendedAt, ...rest } = (await resourceOf(store.ledger, 'agent.1')) ?? expect.unreachable()
    expect(rest).toEqual({ ...planned, state: 'intended', attempts: 0 })
    expect(intendedAt).toMatch(isoTime)
  })

  it.each(['closing', 'closed', 'forgotten'])('intend: a scope that is %s accepts nothing (G13)', async (how) => {
    await openAgent(store.ledger)
    if (how === 'closing') await store.ledger.beginClose('agent', { trigger: 'terminated' })
    else await store.ledger.settle(settlement({ closedScopeIds: ['agent'], forgottenScopeIds: how === 'forgotten' ? ['agent'] : [] }))
    await expect(store.ledger.intend('agent', [intent('agent', 1), intent('agent', 2)])).rejects.toMatchObject({ code: 'scope_closed' })
    expect((await store.ledger.contents()).resources).toEqual([])
  })

  it('intend: a plan in the same turn after the close is refused completely (G13)', async () => {
    await openAgent(store.ledger)
    const [, plan] = await Promise.allSettled([
      store.ledger.beginClose('agent', { trigger: 'terminated' }),
      store.ledger.intend('agent', [intent('agent', 1), intent('agent', 2)]),
    ])
    expect(plan).toMatchObject({ status: 'rejected', reason: { code: 'scope_closed' } })
    expect((await store.ledger.contents()).resources).toEqual([])
  })

  it('intend: a plan in the same turn before the close is recorded in the closing scope', async () => {
    await openAgent(store.ledger)
    await Promise.all([store.ledger.intend('agent', [intent('agent', 1)]), store.ledger.beginClose('agent', { trigger: 'terminated' })])
    expect(await statesOf(store.ledger)).toMatchObject({ agent: 'closing', 'agent.1': 'intended' })
  })

  it('intend: a plan raced with a close of another connection is refused or known to the close (G13)', async () => {
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

  it('intend: with an opening, scopes and intents are written together, and the scopes below a closing one not at all (G13)', async () => {
    const { ledger } = store
    await openAgent(ledger, 'request')
    const opening = { scopes: [scope('inner', 'request'), scope('agent', 'inner')] }
    await ledger.intend('agent', [intent('agent', 1)], 'crash', opening)
    expect(await statesOf(ledger)).toMatchObject({ inner: 'open', agent: 'open', 'agent.1': 'intended' })
    await ledger.beginClose('request', { trigger: 'request-finished' })
    const late = { scopes: [scope('inner', 'request'), scope('late', 'inner')] }
    await expect(ledger.intend('late', [intent('late', 1)], 'crash', late)).rejects.toMatchObject({ code: 'scope_closed' })
    const fresh = { scopes: [scope('fresh', 'host-i1'), scope('late', 'request')] }
    await expect(ledger.intend('late', [intent('late', 1)], 'crash', fresh)).rejects.toMatchObject({ code: 'scope_closed' })
    expect(Object.keys(await statesOf(ledger)).toSorted()).toEqual(['agent', 'agent.1', 'host-i1', 'inner', 'request'])
  })

  it('intend: with an opening and one invalid intent, nothing of both is written', async () => {
    await openAgent(store.ledger, 'request')
    const opening = { scopes: [scope('agent', 'request')] }
    const plan = [intent('agent', 1), intent('agent', 2, { spec: { size: 1n } })]
    await expect(store.ledger.intend('agent', plan, 'crash', opening)).rejects.toThrow()
    expect(await statesOf(store.ledger)).toEqual({ 'host-i1': 'open', request: 'open' })
  })

  it('intend: a plan with one invalid intent is not written at all', async () => {
    await openAgent(store.ledger)
    const plan = [intent('agent', 1), intent('agent', 2, { spec: { size: 1n } }), intent('agent', 3)]
    await expect(store.ledger.intend('agent', plan)).rejects.toThrow()
    expect((await store.ledger.contents()).resources).toEqual([])
  })

  it('intend: an intent never replaces a resource in the ledger', async () => {
    await holdResources(store.ledger, 'agent', 1)
    await store.ledger.record('agent.1', { inode: '7' })
    await expect(store.ledger.intend('agent', [intent('agent', 2), intent('agent', 1)])).rejects.toThrow()
    expect(await resourceOf(store.ledger, 'agent.1')).toMatchObject({ state: 'held', detail: { inode: '7' } })
    expect(await resourceOf(store.ledger, 'agent.2')).toBeUndefined()
  })

  it('intend: a plan belongs to the given scope, whatever scope its intents name (G13)', async () => {
    await openAgent(store.ledger, 'agent')
    await openAgent(store.ledger, 'closed')
    await store.ledger.beginClose('closed', { trigger: 'completed' })
    await store.ledger.intend('agent', [intent('closed', 1)])
    expect(await resourceOf(store.ledger, 'closed.1')).toMatchObject({ scopeId: 'agent' })
  })
}

function holding(store: Store): void {
  it('record: a detail during a creation is kept, and the resource stays intended', async () => {
    await openAgent(store.ledger)
    await store.ledger.intend('agent', [intent('agent', 1)])
    await store.ledger.record('agent.1', { inode: '42', bornNs: '1763197200123456789' })
    expect(await resourceOf(store.ledger, 'agent.1')).toMatchObject({
      state: 'intended',
      detail: { inode: '42', bornNs: '1763197200123456789' },
    })
  })

  it('hold: records the time, and keeps the known detail unless a new one is given', async () => {
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

  it('hold: a creation that finishes after the close began stays closing', async () => {
    await holdResources(store.ledger, 'agent', 1)
    await store.ledger.intend('agent', [intent('agent', 2)])
    await store.ledger.beginClose('agent', { trigger: 'terminated' })
    await store.ledger.hold([{ resourceId: 'agent.1', detail: { pid: 7 } }, { resourceId: 'agent.2' }])
    expect(await resourceOf(store.ledger, 'agent.1')).toMatchObject({ state: 'closing', detail: { pid: 7 } })
    expect(await resourceOf(store.ledger, 'agent.2')).toMatchObject({ state: 'closing' })
  })

  it.each(['released', 'stuck'] as const)(
    'hold: a creation that finishes after the resource was %s does not change that',
    async (state) => {
      await holdResources(store.ledger, 'agent', 1)
      await store.ledger.beginClose('agent', { trigger: 'terminated' })
      await store.ledger.settle(settlement({ outcomes: [released('agent.1', { state })] }))
      await store.ledger.hold([{ resourceId: 'agent.1' }])
      expect(await resourceOf(store.ledger, 'agent.1')).toMatchObject({ state, proof })
    },
  )
}

function adopting(store: Store): void {
  it('adopt: an unknown resource of Ebb is recorded as held, in the scope that found it', async () => {
    await openAgent(store.ledger)
    await store.ledger.adopt('agent', intent('elsewhere', 1, { incarnation: 'dead' }))
    expect(await resourceOf(store.ledger, 'elsewhere.1')).toMatchObject({
      state: 'held',
      scopeId: 'agent',
      incarnation: 'dead',
      heldAt: expect.stringMatching(isoTime),
    })
  })

  it('adopt: a released resource that exists again is held again, without its proof', async () => {
    await holdResources(store.ledger, 'agent', 1)
    await store.ledger.settle(settlement({ outcomes: [released('agent.1', { attempts: 3 })] }))
    await store.ledger.adopt('agent', intent('agent', 1))
    const adopted = await resourceOf(store.ledger, 'agent.1')
    expect(adopted).toMatchObject({ state: 'held' })
    expect(adopted).not.toHaveProperty('proof')
    expect(adopted).not.toHaveProperty('releasedAt')
  })

  it('adopt: a closing scope accepts what its sweep found', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('agent', { trigger: 'terminated' })
    await store.ledger.adopt('agent', intent('agent', 9))
    expect(await resourceOf(store.ledger, 'agent.9')).toMatchObject({ scopeId: 'agent', state: 'held' })
    expect((await scopeOf(store.ledger, 'agent'))?.state).toBe('closing')
  })

  it('adopt: refused when the scope does not exist', async () => {
    await expect(store.ledger.adopt('gone', intent('gone', 1))).rejects.toMatchObject({ code: 'scope_closed' })
  })
}
