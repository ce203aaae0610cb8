import { expect, it } from 'vitest'
import type { Store } from './connections.ts'
import { incarnation, intent, openAgent, resourceOf, scope, scopeOf, settlement, statesOf } from './records.ts'

export function scopeCases(store: Store): void {
  it('open: records the kind, the parent and the incarnation', async () => {
    await store.ledger.open({ scopes: [scope('host-i1')] })
    await store.ledger.open({ scopes: [scope('request', 'host-i1', { kind: 'request' })] })
    expect(await scopeOf(store.ledger, 'request')).toEqual({
      id: 'request',
      kind: 'request',
      parentId: 'host-i1',
      incarnation: 'i1',
      state: 'open',
      closeRequest: undefined,
    })
  })

  it('open: parent, child and intents of one turn are written in that order', async () => {
    const { ledger } = store
    await Promise.all([
      ledger.open({ scopes: [scope('host-i1')] }),
      ledger.open({ scopes: [scope('agent', 'host-i1')] }),
      ledger.intend('agent', [intent('agent', 1)]),
    ])
    expect(await statesOf(ledger)).toEqual({ 'host-i1': 'open', agent: 'open', 'agent.1': 'intended' })
  })

  it('open: refused below a closing scope (G13)', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('agent', { trigger: 'terminated' })
    await expect(store.ledger.open({ scopes: [scope('child', 'agent')] })).rejects.toMatchObject({ code: 'scope_closed' })
    expect(await scopeOf(store.ledger, 'child')).toBeUndefined()
  })

  it('open: refused below a child of a closing scope (G13)', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('host-i1', { trigger: 'process-exit' })
    await expect(store.ledger.open({ scopes: [scope('child', 'agent')] })).rejects.toMatchObject({ code: 'scope_closed' })
  })

  it('open: refused below a closed, a forgotten and an unknown scope', async () => {
    await openAgent(store.ledger, 'closed')
    await openAgent(store.ledger, 'forgotten')
    await store.ledger.settle(settlement({ closedScopeIds: ['closed', 'forgotten'], forgottenScopeIds: ['forgotten'] }))
    for (const parent of ['closed', 'forgotten', 'unknown'])
      await expect(store.ledger.open({ scopes: [scope(`below-${parent}`, parent)] })).rejects.toMatchObject({ code: 'scope_closed' })
  })

  it('open: refused in the same turn after the close of its parent', async () => {
    await openAgent(store.ledger)
    const [, opened] = await Promise.allSettled([
      store.ledger.beginClose('host-i1', { trigger: 'process-exit' }),
      store.ledger.open({ scopes: [scope('child', 'agent')] }),
    ])
    expect(opened).toMatchObject({ status: 'rejected', reason: { code: 'scope_closed' } })
  })

  it('open: an id in use is refused, and its scope is unchanged', async () => {
    await openAgent(store.ledger)
    await store.ledger.beginClose('agent', { trigger: 'deleted', force: true })
    const before = await scopeOf(store.ledger, 'agent')
    await expect(store.ledger.open({ scopes: [scope('agent', 'host-i1')] })).rejects.toMatchObject({ code: 'scope_closed' })
    expect(await scopeOf(store.ledger, 'agent')).toEqual(before)
  })

  it('open: the id of a closed scope is refused', async () => {
    await openAgent(store.ledger)
    await store.ledger.settle(settlement({ closedScopeIds: ['agent'] }))
    await expect(store.ledger.open({ scopes: [scope('agent', 'host-i1')] })).rejects.toMatchObject({ code: 'scope_closed' })
    expect((await scopeOf(store.ledger, 'agent'))?.state).toBe('closed')
  })

  it('open: the id of a forgotten scope can be used again', async () => {
    await openAgent(store.ledger)
    await store.ledger.settle(settlement({ closedScopeIds: ['agent'], forgottenScopeIds: ['agent'] }))
    await store.ledger.open({ scopes: [scope('agent', 'host-i1')] })
    expect((await scopeOf(store.ledger, 'agent'))?.state).toBe('open')
  })

  it('open: a refused write does not affect the others of its turn', async () => {
    const { ledger } = store
    await openAgent(ledger)
    const settled = await Promise.allSettled([
      ledger.open({ scopes: [scope('before', 'host-i1')] }),
      ledger.open({ scopes: [scope('orphan', 'unknown')] }),
      ledger.adopt('unknown', intent('unknown', 1)),
      ledger.intend('agent', [intent('agent', 1, { spec: { size: 1n } })]),
      ledger.intend('agent', [intent('agent', 2)]),
      ledger.open({ scopes: [scope('after', 'host-i1')] }),
    ])
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'rejected', 'fulfilled', 'fulfilled'])
    expect(await statesOf(ledger)).toEqual({ 'host-i1': 'open', agent: 'open', before: 'open', after: 'open', 'agent.2': 'intended' })
    expect(await resourceOf(ledger, 'agent.1')).toBeUndefined()
  })

  it('open: a scope that is open already with the same parent and incarnation stays as it is', async () => {
    const { ledger } = store
    await openAgent(ledger)
    await ledger.intend('agent', [intent('agent', 1)])
    await ledger.open({ scopes: [scope('host-i1'), scope('agent', 'host-i1'), scope('child', 'agent')] })
    expect(await statesOf(ledger)).toEqual({ 'host-i1': 'open', agent: 'open', child: 'open', 'agent.1': 'intended' })
  })

  it.each([
    ['parent', { parentId: 'other' }],
    ['kind', { kind: 'request' as const }],
    ['incarnation', { incarnation: 'i2' }],
  ])('open: an id in use with another %s is refused, and nothing of the call is written', async (_what, more) => {
    const { ledger } = store
    await openAgent(ledger)
    await ledger.open({ scopes: [scope('other', 'host-i1')] })
    const scopes = [scope('before', 'host-i1'), scope('agent', 'host-i1', more), scope('after', 'host-i1')]
    await expect(ledger.open({ scopes })).rejects.toMatchObject({ code: 'scope_closed' })
    expect(await statesOf(ledger)).toEqual({ 'host-i1': 'open', agent: 'open', other: 'open' })
  })

  it('open: brings an incarnation with its host scope once, and leaves a registered one as it is', async () => {
    const { ledger } = store
    const opening = (id: string) => ({ incarnation: incarnation('i1'), scopes: [scope('host-i1'), scope(id, 'host-i1')] })
    await Promise.all([ledger.open(opening('a')), ledger.open(opening('b'))])
    expect(await statesOf(ledger)).toEqual({ 'host-i1': 'open', a: 'open', b: 'open' })
    expect(await ledger.claim('i1', 'other', undefined)).toBe(true)
    await ledger.open(opening('c'))
    expect(await ledger.incarnations()).toMatchObject([{ id: 'i1', claimedBy: 'other' }])
  })
}
