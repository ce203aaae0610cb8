import { expect, it } from 'vitest'
import type { CloseRequest } from '../../../src/core/model/close-request.ts'
import type { Store } from './connections.ts'
import { holdResources, intent, openAgent, proof, released, report, resourceOf, scope, scopeOf, settlement, statesOf } from './records.ts'

export function closeCases(store: Store): void {
  beginning(store)
  wishing(store)
  settling(store)
  reopening(store)
  condemning(store)
  reporting(store)
}

function beginning(store: Store): void {
  it('beginClose: marks the scope and its descendants, and no other scope', async () => {
    const { ledger } = store
    await holdResources(ledger, 'agent', 1)
    await holdResources(ledger, 'sibling', 1)
    await ledger.open({ scopes: [scope('child', 'agent')] })
    await ledger.intend('child', [intent('child', 1), intent('child', 2)])
    await ledger.hold([{ resourceId: 'child.1' }])
    await ledger.beginClose('agent', { trigger: 'terminated' })
    expect(await statesOf(ledger)).toEqual({
      'host-i1': 'open',
      agent: 'closing',
      'agent.1': 'closing',
      child: 'closing',
      'child.1': 'closing',
      // Whether the resource of an intent exists is not known. The begin of a close does not change its state.
      'child.2': 'intended',
      sibling: 'open',
      'sibling.1': 'held',
    })
  })

  it('beginClose: a closed scope stays closed', async () => {
    await openAgent(store.ledger, 'done')
    await store.ledger.settle(settlement({ closedScopeIds: ['done'] }))
    await store.ledger.beginClose('host-i1', { trigger: 'process-exit' })
    expect(await scopeOf(store.ledger, 'done')).toMatchObject({ state: 'closed', closeRequest: undefined })
  })

  it('beginClose: stuck and released resources keep their state', async () => {
    await holdResources(store.ledger, 'agent', 2)
    await store.ledger.settle(
      settlement({ outcomes: [released('agent.1'), { resourceId: 'agent.2', state: 'stuck', attempts: 1, error: 'busy' }] }),
    )
    await store.ledger.beginClose('agent', { trigger: 'reaper' })
    expect(await statesOf(store.ledger)).toMatchObject({ 'agent.1': 'released', 'agent.2': 'stuck' })
  })

  it('beginClose: succeeds for an unknown scope', async () => {
    await store.ledger.beginClose('nothing', { trigger: 'terminated' })
    expect(await store.ledger.contents()).toEqual({ scopes: [], resources: [] })
  })
}

function wishing(store: Store): void {
  const weak: CloseRequest = { trigger: 'terminated', graceMs: 5_000, deadlineMs: 15_000 }
  const strong: CloseRequest = { trigger: 'terminated', force: true, forget: true, graceMs: 100, deadlineMs: 2_000 }

  it.each([
    ['weak before strong', weak, strong],
    ['strong before weak', strong, weak],
  ])('beginClose: the stronger close request is kept, %s (G6)', async (_name, first, second) => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('agent', first)
    await store.ledger.beginClose('agent', second)
    expect((await scopeOf(store.ledger, 'agent'))?.closeRequest).toEqual(strong)
  })

  it('beginClose: a close request without a deadline keeps the earlier deadline (G6)', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('agent', { trigger: 'terminated', deadlineMs: 2_000 })
    await store.ledger.beginClose('agent', { trigger: 'terminated', force: true })
    expect((await scopeOf(store.ledger, 'agent'))?.closeRequest).toMatchObject({ force: true, deadlineMs: 2_000 })
  })

  it('beginClose: a requested deletion is kept when the scope is closed again for another reason (G6)', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('agent', { trigger: 'deleted' })
    await store.ledger.beginClose('agent', { trigger: 'reaper' })
    expect((await scopeOf(store.ledger, 'agent'))?.closeRequest).toMatchObject({ trigger: 'reaper', forget: true })
  })

  it('beginClose: force of a child is kept when its parent is closed without force (G6)', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('agent', { trigger: 'deleted', force: true, forget: true })
    await store.ledger.beginClose('host-i1', { trigger: 'process-exit' })
    expect((await scopeOf(store.ledger, 'agent'))?.closeRequest).toMatchObject({ force: true, forget: true })
    expect((await scopeOf(store.ledger, 'host-i1'))?.closeRequest).toEqual({ trigger: 'process-exit' })
  })
}

function settling(store: Store): void {
  it('settle: a released resource has its proof, attempts and time', async () => {
    await holdResources(store.ledger, 'agent', 1)
    await store.ledger.settle(settlement({ outcomes: [{ resourceId: 'agent.1', state: 'stuck', attempts: 1, error: 'busy' }] }))
    await store.ledger.settle(settlement({ outcomes: [released('agent.1', { attempts: 2 })] }))
    const resource = await resourceOf(store.ledger, 'agent.1')
    expect(resource).toMatchObject({ state: 'released', attempts: 2, proof, releasedAt: expect.any(String) })
    expect(resource).not.toHaveProperty('error')
  })

  it.each(['stuck', 'closing'] as const)('settle: a resource that is %s has an error and no proof', async (state) => {
    await holdResources(store.ledger, 'agent', 1)
    await store.ledger.settle(settlement({ outcomes: [{ resourceId: 'agent.1', state, attempts: 4, error: 'It is busy.' }] }))
    const resource = await resourceOf(store.ledger, 'agent.1')
    expect(resource).toMatchObject({ state, attempts: 4, error: 'It is busy.' })
    expect(resource).not.toHaveProperty('proof')
    expect(resource).not.toHaveProperty('releasedAt')
  })

  it('settle: closed scopes stay in the ledger with their resources', async () => {
    await holdResources(store.ledger, 'agent', 1)
    await store.ledger.settle(settlement({ outcomes: [released('agent.1')], closedScopeIds: ['agent'] }))
    expect(await statesOf(store.ledger)).toEqual({ 'host-i1': 'open', agent: 'closed', 'agent.1': 'released' })
  })

  it('settle: a forgotten scope is deleted with its descendants, and other scopes stay', async () => {
    const { ledger } = store
    await holdResources(ledger, 'agent', 2)
    await holdResources(ledger, 'sibling', 1)
    await ledger.open({ scopes: [scope('child', 'agent')] })
    await ledger.intend('child', [intent('child', 1)])
    await ledger.settle(settlement({ forgottenScopeIds: ['agent'] }))
    expect(await statesOf(ledger)).toEqual({ 'host-i1': 'open', sibling: 'open', 'sibling.1': 'held' })
  })

  it('settle: a settlement that fails is not written in part', async () => {
    await holdResources(store.ledger, 'agent', 1)
    const first = { id: 'r1', body: report('agent') }
    await store.ledger.settle(settlement({ report: first }))
    const again = settlement({ outcomes: [released('agent.1')], closedScopeIds: ['agent'], report: first })
    await expect(store.ledger.settle(again)).rejects.toThrow()
    expect(await statesOf(store.ledger)).toMatchObject({ agent: 'open', 'agent.1': 'held' })
  })
}

function reopening(store: Store): void {
  it('reopen: a closed scope is closing again, with the close request, and belongs to the caller', async () => {
    const { ledger } = store
    await openAgent(ledger)
    await ledger.settle(settlement({ closedScopeIds: ['agent', 'host-i1'] }))
    await ledger.open({ scopes: [scope('host-i2', undefined, { incarnation: 'i2' })] })
    const closeRequest = { trigger: 'terminated', dropLogs: true } as const
    await ledger.reopen({ id: 'agent', kind: 'agent', parentId: 'host-i2', incarnation: 'i2' }, closeRequest)
    const { scopes } = await ledger.contents('i2', 'open')
    expect(scopes.find(({ id }) => id === 'agent')).toMatchObject({
      parentId: 'host-i2',
      incarnation: 'i2',
      state: 'closing',
      closeRequest,
    })
  })

  it('reopen: refused for an open scope, and below a closed parent', async () => {
    const { ledger } = store
    await openAgent(ledger)
    const again = { id: 'agent', kind: 'agent', parentId: 'host-i1', incarnation: 'i1' } as const
    await expect(ledger.reopen(again, { trigger: 'terminated' })).rejects.toMatchObject({ code: 'scope_closed' })
    await ledger.settle(settlement({ closedScopeIds: ['agent', 'host-i1'] }))
    await expect(ledger.reopen(again, { trigger: 'terminated' })).rejects.toMatchObject({ code: 'scope_closed' })
    expect(await statesOf(ledger)).toMatchObject({ agent: 'closed' })
  })
}

function condemning(store: Store): void {
  it('condemn: closed scopes of the agents are closing again below the given host, and open ones are unchanged', async () => {
    const { ledger } = store
    await openAgent(ledger, 'ended')
    await openAgent(ledger, 'living')
    await ledger.settle(settlement({ closedScopeIds: ['ended'] }))
    await ledger.open({ scopes: [scope('host-i2', undefined, { incarnation: 'i2' })] })
    const closeRequest = { trigger: 'deleted' } as const
    await ledger.condemn(['ended', 'living', 'unknown'], { id: 'host-i2', incarnation: 'i2' }, closeRequest)
    const { scopes } = await ledger.contents('i2', 'open')
    expect(scopes.filter(({ kind }) => kind === 'agent')).toMatchObject([
      { id: 'ended', parentId: 'host-i2', state: 'closing', closeRequest },
    ])
    expect(await scopeOf(ledger, 'living')).toMatchObject({
      parentId: 'host-i1',
      incarnation: 'i1',
      state: 'open',
      closeRequest: undefined,
    })
  })
}

function reporting(store: Store): void {
  it('reports: newest first, and kept when their scope is forgotten', async () => {
    await openAgent(store.ledger)
    for (const id of ['r1', 'r2', 'r3'])
      await store.ledger.settle(settlement({ forgottenScopeIds: ['agent'], report: { id, body: report(id) } }))
    expect(await store.ledger.reports(2)).toEqual([
      { id: 'r3', body: report('r3') },
      { id: 'r2', body: report('r2') },
    ])
    expect(await store.ledger.reportIds(2)).toEqual(['r3', 'r2'])
  })

  it('reports: the last thousand are kept', async () => {
    const ids = Array.from({ length: 1_005 }, (_, index) => `r${index}`)
    await Promise.all(ids.map((id) => store.ledger.settle(settlement({ report: { id, body: report(id) } }))))
    const kept = await store.ledger.reports(2_000)
    expect(kept.map(({ id }) => id)).toEqual(ids.toReversed().slice(0, 1_000))
  })
}
