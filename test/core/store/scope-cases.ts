import { expect, it } from 'vitest'
import type { Store } from './connections.ts'
import { intent, openAgent, resourceOf, scope, scopeOf, settlement, statesOf } from './records.ts'

export function scopeCases(store: Store): void {
  it('openScope: records the kind, the parent and the incarnation', async () => {
    await store.ledger.openScope(scope('host-i1'))
    await store.ledger.openScope(scope('request', 'host-i1', { kind: 'request' }))
    expect(await scopeOf(store.ledger, 'request')).toEqual({
      id: 'request',
      kind: 'request',
      parentId: 'host-i1',
      incarnation: 'i1',
      state: 'open',
      closeRequest: undefined,
    })
  })

  it('openScope: parent, child and intents of one turn are written in that order', async () => {
    const { ledger } = store
    await Promise.all([
      ledger.openScope(scope('host-i1')),
      ledger.openScope(scope('agent', 'host-i1')),
      ledger.intend('agent', [intent('agent', 1)]),
    ])
    expect(await statesOf(ledger)).toEqual({ 'host-i1': 'open', agent: 'open', 'agent.1': 'intended' })
  })

  it('openScope: refused below a closing scope (G13)', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('agent', { trigger: 'terminated' })
    await expect(store.ledger.openScope(scope('child', 'agent'))).rejects.toMatchObject({ code: 'scope_closed' })
    expect(await scopeOf(store.ledger, 'child')).toBeUndefined()
  })

  it('openScope: refused below a child of a closing scope (G13)', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('host-i1', { trigger: 'process-exit' })
    await expect(store.ledger.openScope(scope('child', 'agent'))).rejects.toMatchObject({ code: 'scope_closed' })
  })

  it('openScope: refused below a closed, a forgotten and an unknown scope', async () => {
    await openAgent(store.ledger, 'closed')
    await openAgent(store.ledger, 'forgotten')
    await store.ledger.settle(settlement({ closedScopeIds: ['closed', 'forgotten'], forgottenScopeIds: ['forgotten'] }))
    for (const parent of ['closed', 'forgotten', 'unknown'])
      await expect(store.ledger.openScope(scope(`below-${parent}`, parent))).rejects.toMatchObject({ code: 'scope_closed' })
  })

  it('openScope: refused in the same turn after the close of its parent', async () => {
    await openAgent(store.ledger)
    const [, opened] = await Promise.allSettled([
      store.ledger.beginClose('host-i1', { trigger: 'process-exit' }),
      store.ledger.openScope(scope('child', 'agent')),
    ])
    expect(opened).toMatchObject({ status: 'rejected', reason: { code: 'scope_closed' } })
  })

  it('openScope: an id in use is refused, and its scope is unchanged', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('agent', { trigger: 'deleted', force: true })
    const before = await scopeOf(store.ledger, 'agent')
    await expect(store.ledger.openScope(scope('agent', 'host-i1'))).rejects.toMatchObject({ code: 'scope_closed' })
    expect(await scopeOf(store.ledger, 'agent')).toEqual(before)
  })

  it('openScope: the id of a closed scope is refused', async () => {
    await openAgent(store.ledger)
    await store.ledger.settle(settlement({ closedScopeIds: ['agent'] }))
    await expect(store.ledger.openScope(scope('agent', 'host-i1'))).rejects.toMatchObject({ code: 'scope_closed' })
    expect((await scopeOf(store.ledger, 'agent'))?.state).toBe('closed')
  })

  it('openScope: the id of a forgotten scope can be used again', async () => {
    await openAgent(store.ledger)
    await store.ledger.settle(settlement({ closedScopeIds: ['agent'], forgottenScopeIds: ['agent'] }))
    await store.ledger.openScope(scope('agent', 'host-i1'))
    expect((await scopeOf(store.ledger, 'agent'))?.state).toBe('open')
  })

  it('openScope: a refused write does not affect the others of its turn', async () => {
    const { ledger } = store
    await openAgent(ledger)
    const settled = await Promise.allSettled([
      ledger.openScope(scope('before', 'host-i1')),
      ledger.openScope(scope('orphan', 'unknown')),
      ledger.adopt('unknown', intent('unknown', 1)),
      ledger.intend('agent', [intent('agent', 1, { spec: { size: 1n } })]),
      ledger.intend('agent', [intent('agent', 2)]),
      ledger.openScope(scope('after', 'host-i1')),
    ])
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'rejected', 'fulfilled', 'fulfilled'])
    expect(await statesOf(ledger)).toEqual({ 'host-i1': 'open', agent: 'open', before: 'open', after: 'open', 'agent.2': 'intended' })
    expect(await resourceOf(ledger, 'agent.1')).toBeUndefined()
  })
}
