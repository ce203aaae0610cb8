import { expect, it } from 'vitest'
import type { Store } from './connections.ts'
import { intent, openAgent, resourceOf, scope, scopeOf, settlement, statesOf } from './records.ts'

export function scopeCases(store: Store): void {
  it('an open scope is on the books with its kind, its parent and its incarnation', async () => {
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

  it('parent, child and intents may be asked for in one turn, and arrive in that order', async () => {
    const { ledger } = store
    await Promise.all([
      ledger.openScope(scope('host-i1')),
      ledger.openScope(scope('agent', 'host-i1')),
      ledger.intend('agent', [intent('agent', 1)]),
    ])
    expect(await statesOf(ledger)).toEqual({ 'host-i1': 'open', agent: 'open', 'agent.1': 'intended' })
  })

  it('a closing scope takes no scope in (G13)', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('agent', { trigger: 'terminated' })
    await expect(store.ledger.openScope(scope('child', 'agent'))).rejects.toMatchObject({ code: 'scope_closed' })
    expect(await scopeOf(store.ledger, 'child')).toBeUndefined()
  })

  it('a scope below a closing one takes no scope in (G13)', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('host-i1', { trigger: 'process-exit' })
    await expect(store.ledger.openScope(scope('child', 'agent'))).rejects.toMatchObject({ code: 'scope_closed' })
  })

  it('a closed, a forgotten and an unknown scope take no scope in', async () => {
    await openAgent(store.ledger, 'closed')
    await openAgent(store.ledger, 'forgotten')
    await store.ledger.settle(settlement({ closedScopeIds: ['closed', 'forgotten'], forgottenScopeIds: ['forgotten'] }))
    for (const parent of ['closed', 'forgotten', 'unknown'])
      await expect(store.ledger.openScope(scope(`below-${parent}`, parent))).rejects.toMatchObject({ code: 'scope_closed' })
  })

  it('a close and an opening below it in one turn: the close was asked for first, so the opening is refused', async () => {
    await openAgent(store.ledger)
    const [, opened] = await Promise.allSettled([
      store.ledger.beginClose('host-i1', { trigger: 'process-exit' }),
      store.ledger.openScope(scope('child', 'agent')),
    ])
    expect(opened).toMatchObject({ status: 'rejected', reason: { code: 'scope_closed' } })
  })

  it('an id that is in use is refused, and the scope that has it is untouched', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('agent', { trigger: 'deleted', force: true })
    const before = await scopeOf(store.ledger, 'agent')
    await expect(store.ledger.openScope(scope('agent', 'host-i1'))).rejects.toMatchObject({ code: 'scope_closed' })
    expect(await scopeOf(store.ledger, 'agent')).toEqual(before)
  })

  it('an id whose scope is closed is not opened again', async () => {
    await openAgent(store.ledger)
    await store.ledger.settle(settlement({ closedScopeIds: ['agent'] }))
    await expect(store.ledger.openScope(scope('agent', 'host-i1'))).rejects.toMatchObject({ code: 'scope_closed' })
    expect((await scopeOf(store.ledger, 'agent'))?.state).toBe('closed')
  })

  it('an id whose scope was forgotten is free again', async () => {
    await openAgent(store.ledger)
    await store.ledger.settle(settlement({ closedScopeIds: ['agent'], forgottenScopeIds: ['agent'] }))
    await store.ledger.openScope(scope('agent', 'host-i1'))
    expect((await scopeOf(store.ledger, 'agent'))?.state).toBe('open')
  })

  it('one that is refused takes nothing of the others of its turn with it', async () => {
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
