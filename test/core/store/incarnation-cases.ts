import { expect, it } from 'vitest'
import type { IncarnationRecord, Ledger } from '../../../src/core/ports/ledger.ts'
import type { Store } from './connections.ts'
import { holdResources, incarnation, intent, openAgent, released, scope, scopeOf, server, settlement, statesOf } from './records.ts'

const contenders = 12

export function incarnationCases(store: Store): void {
  registering(store)
  takingOver(store)
  claiming(store)
  retiring(store)
}

async function byId(ledger: Ledger): Promise<Record<string, IncarnationRecord>> {
  return Object.fromEntries((await ledger.incarnations()).map((one) => [one.id, one]))
}

const count = (answers: readonly boolean[]): number => answers.filter(Boolean).length

function registering(store: Store): void {
  it('register: the ledger has the incarnation with its identity', async () => {
    const record = server('i1', 'http://[::1]:4400')
    await store.ledger.register(record)
    expect(await store.ledger.incarnations()).toEqual([record])
  })

  it('incarnations: in the order of their registration', async () => {
    await store.ledger.register(incarnation('late', { registeredAt: '2026-11-15T09:00:02.000Z' }))
    await store.ledger.register(incarnation('early', { registeredAt: '2026-11-15T09:00:01.000Z' }))
    expect((await store.ledger.incarnations()).map(({ id }) => id)).toEqual(['early', 'late'])
  })

  it('register: many commands can register beside one server', async () => {
    await store.ledger.register(server('s'))
    await Promise.all(Array.from({ length: contenders }, (_, index) => store.ledger.register(incarnation(`c${index}`))))
    expect(await store.ledger.incarnations()).toHaveLength(contenders + 1)
  })

  it('register: a second server is refused with the pid and address of the first, and leaves no record', async () => {
    const first = server('first', 'http://127.0.0.1:4999')
    await store.ledger.register(first)
    const refusal = store.ledger.register(server('second'))
    await expect(refusal).rejects.toMatchObject({ code: 'server_running', details: first })
    await expect(refusal).rejects.toThrow(/pid 4711, http:\/\/127\.0\.0\.1:4999/)
    expect(Object.keys(await byId(store.ledger))).toEqual(['first'])
  })

  it('register: the incarnation and its host scope are recorded together', async () => {
    await store.ledger.register(incarnation('i1'), scope('host-i1'))
    expect(Object.keys(await byId(store.ledger))).toEqual(['i1'])
    expect(await statesOf(store.ledger)).toEqual({ 'host-i1': 'open' })
  })

  it('register: when the incarnation or its host scope is refused, neither is recorded', async () => {
    await store.ledger.register(server('first'), scope('host-first'))
    await expect(store.ledger.register(server('second'), scope('host-second'))).rejects.toMatchObject({ code: 'server_running' })
    await expect(store.ledger.register(incarnation('third'), scope('host-first'))).rejects.toThrow()
    expect(await store.ledger.unseatServer('nobody', server('fourth'), scope('host-fourth'))).toBe(false)
    expect(Object.keys(await byId(store.ledger))).toEqual(['first'])
    expect(await statesOf(store.ledger)).toEqual({ 'host-first': 'open' })
  })

  it('register: exactly one of many servers that start at once is registered', async () => {
    const other = await store.reopen()
    const starts = Array.from({ length: contenders }, (_, index) => (index % 2 ? store.ledger : other).register(server(`s${index}`)))
    const settled = await Promise.allSettled(starts)
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(await store.ledger.incarnations()).toHaveLength(1)
  })

  it('register: a server that registers again stays the server', async () => {
    await store.ledger.register(server('s', 'http://127.0.0.1:1'))
    await store.ledger.register(server('s', 'http://127.0.0.1:2'))
    expect((await byId(store.ledger)).s?.address).toBe('http://127.0.0.1:2')
  })
}

function takingOver(store: Store): void {
  it('unseatServer: exactly one of many servers replaces a dead one', async () => {
    const other = await store.reopen()
    await store.ledger.register(server('dead'))
    const tries = Array.from({ length: contenders }, (_, index) =>
      (index % 2 ? store.ledger : other).unseatServer('dead', server(`s${index}`)),
    )
    expect(count(await Promise.all(tries))).toBe(1)
    const servers = (await store.ledger.incarnations()).filter(({ role }) => role === 'server')
    expect(servers).toHaveLength(1)
  })

  it('unseatServer: the dead server stays in the ledger for the recovery, without an address', async () => {
    await store.ledger.register(server('dead'))
    await openAgent(store.ledger, 'agent', 'dead')
    expect(await store.ledger.unseatServer('dead', server('next'), scope('host-next'))).toBe(true)
    expect(await scopeOf(store.ledger, 'host-next')).toBeDefined()
    expect((await byId(store.ledger)).dead).toMatchObject({ role: 'command', address: undefined })
    expect((await store.ledger.contents('dead')).scopes.map(({ id }) => id)).toContain('agent')
  })

  it('unseatServer: an incarnation that is not the server cannot be replaced, and nothing is registered', async () => {
    await store.ledger.register(incarnation('command'))
    expect(await store.ledger.unseatServer('command', server('next'))).toBe(false)
    expect(await store.ledger.unseatServer('nobody', server('next'))).toBe(false)
    expect(Object.keys(await byId(store.ledger))).toEqual(['command'])
  })
}

function claiming(store: Store): void {
  it('claim: exactly one of many claimers that saw the same claim succeeds', async () => {
    const other = await store.reopen()
    await store.ledger.register(incarnation('dead'))
    const tries = Array.from({ length: contenders }, (_, index) =>
      (index % 2 ? store.ledger : other).claim('dead', `by${index}`, undefined),
    )
    const answers = await Promise.all(tries)
    expect(count(answers)).toBe(1)
    expect((await byId(store.ledger)).dead?.claimedBy).toBe(`by${answers.indexOf(true)}`)
  })

  it('claim: a claim is taken over only by a claimer that saw it', async () => {
    await store.ledger.register(incarnation('dead'))
    await store.ledger.claim('dead', 'a', undefined)
    expect(await store.ledger.claim('dead', 'b', undefined)).toBe(false)
    expect(await store.ledger.claim('dead', 'b', 'somebody')).toBe(false)
    expect(await store.ledger.claim('dead', 'b', 'a')).toBe(true)
    expect((await byId(store.ledger)).dead?.claimedBy).toBe('b')
  })

  it('claim: an unknown incarnation cannot be claimed', async () => {
    expect(await store.ledger.claim('nobody', 'a', undefined)).toBe(false)
  })
}

function retiring(store: Store): void {
  it('retire: refused while a scope of the incarnation is not closed', async () => {
    await store.ledger.register(incarnation('i1'))
    await openAgent(store.ledger)
    expect(await store.ledger.retire('i1')).toBe(false)
    await store.ledger.beginClose('agent', { trigger: 'completed' })
    expect(await store.ledger.retire('i1')).toBe(false)
    expect(Object.keys(await byId(store.ledger))).toEqual(['i1'])
  })

  it.each(['stuck', 'closing'] as const)('retire: refused while a resource of the incarnation is %s', async (state) => {
    await store.ledger.register(incarnation('i1'))
    await holdResources(store.ledger, 'agent', 2)
    const outcomes = [released('agent.1'), { resourceId: 'agent.2', state, attempts: 1, error: 'busy' }]
    await store.ledger.settle(settlement({ outcomes, closedScopeIds: ['agent'] }))
    expect(await store.ledger.retire('i1')).toBe(false)
    expect(await scopeOf(store.ledger, 'agent')).toBeDefined()
  })

  it('retire: deletes an incarnation with nothing open and its closed scopes, and keeps the others', async () => {
    await Promise.all([store.ledger.register(incarnation('i1')), store.ledger.register(incarnation('i2'))])
    await holdResources(store.ledger, 'agent', 1)
    await openAgent(store.ledger, 'other', 'i2')
    await store.ledger.settle(settlement({ outcomes: [released('agent.1')], closedScopeIds: ['agent'] }))
    expect(await store.ledger.retire('i1')).toBe(true)
    expect(Object.keys(await byId(store.ledger))).toEqual(['i2'])
    expect(await statesOf(store.ledger)).toEqual({ 'host-i2': 'open', other: 'open' })
  })

  it('retire: succeeds for an incarnation that is retired or never registered', async () => {
    await store.ledger.register(incarnation('i1'))
    expect(await store.ledger.retire('i1')).toBe(true)
    expect(await store.ledger.retire('i1')).toBe(true)
    expect(await store.ledger.retire('nobody')).toBe(true)
  })

  it('retire: an adopted resource belongs to the incarnation of the scope that adopted it', async () => {
    await store.ledger.register(incarnation('i1'))
    await openAgent(store.ledger, 'reaped')
    await store.ledger.adopt('reaped', intent('reaped', 1, { id: 'lost.1', incarnation: 'gone' }))
    expect(await store.ledger.retire('gone')).toBe(true)
    expect(await store.ledger.retire('i1')).toBe(false)
    expect((await store.ledger.contents('i1')).resources).toMatchObject([{ id: 'lost.1', incarnation: 'gone', state: 'held' }])
    expect((await store.ledger.contents('gone')).resources).toEqual([])
  })
}
