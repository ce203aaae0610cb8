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
  it('a registered incarnation is on the books with everything that names it', async () => {
    const record = server('i1', 'http://[::1]:4400')
    await store.ledger.register(record)
    expect(await store.ledger.incarnations()).toEqual([record])
  })

  it('incarnations are told in the order in which they registered', async () => {
    await store.ledger.register(incarnation('late', { registeredAt: '2026-11-15T09:00:02.000Z' }))
    await store.ledger.register(incarnation('early', { registeredAt: '2026-11-15T09:00:01.000Z' }))
    expect((await store.ledger.incarnations()).map(({ id }) => id)).toEqual(['early', 'late'])
  })

  it('many commands register beside one server', async () => {
    await store.ledger.register(server('s'))
    await Promise.all(Array.from({ length: contenders }, (_, index) => store.ledger.register(incarnation(`c${index}`))))
    expect(await store.ledger.incarnations()).toHaveLength(contenders + 1)
  })

  it('a second server is refused with the pid and the address of the first, and leaves no record', async () => {
    const first = server('first', 'http://127.0.0.1:4999')
    await store.ledger.register(first)
    const refusal = store.ledger.register(server('second'))
    await expect(refusal).rejects.toMatchObject({ code: 'server_running', details: first })
    await expect(refusal).rejects.toThrow(/pid 4711, http:\/\/127\.0\.0\.1:4999/)
    expect(Object.keys(await byId(store.ledger))).toEqual(['first'])
  })

  it('an incarnation and its host scope are on the books together', async () => {
    await store.ledger.register(incarnation('i1'), scope('host-i1'))
    expect(Object.keys(await byId(store.ledger))).toEqual(['i1'])
    expect(await statesOf(store.ledger)).toEqual({ 'host-i1': 'open' })
  })

  it('when one of them is refused, the other is not on the books either', async () => {
    await store.ledger.register(server('first'), scope('host-first'))
    await expect(store.ledger.register(server('second'), scope('host-second'))).rejects.toMatchObject({ code: 'server_running' })
    await expect(store.ledger.register(incarnation('third'), scope('host-first'))).rejects.toThrow()
    expect(await store.ledger.unseatServer('nobody', server('fourth'), scope('host-fourth'))).toBe(false)
    expect(Object.keys(await byId(store.ledger))).toEqual(['first'])
    expect(await statesOf(store.ledger)).toEqual({ 'host-first': 'open' })
  })

  it('exactly one of many servers that start at once is seated', async () => {
    const other = await store.reopen()
    const starts = Array.from({ length: contenders }, (_, index) => (index % 2 ? store.ledger : other).register(server(`s${index}`)))
    const settled = await Promise.allSettled(starts)
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(await store.ledger.incarnations()).toHaveLength(1)
  })

  it('a server that registers again keeps its own seat', async () => {
    await store.ledger.register(server('s', 'http://127.0.0.1:1'))
    await store.ledger.register(server('s', 'http://127.0.0.1:2'))
    expect((await byId(store.ledger)).s?.address).toBe('http://127.0.0.1:2')
  })
}

function takingOver(store: Store): void {
  it('exactly one of many takes the seat of a dead server', async () => {
    const other = await store.reopen()
    await store.ledger.register(server('dead'))
    const tries = Array.from({ length: contenders }, (_, index) =>
      (index % 2 ? store.ledger : other).unseatServer('dead', server(`s${index}`)),
    )
    expect(count(await Promise.all(tries))).toBe(1)
    const servers = (await store.ledger.incarnations()).filter(({ role }) => role === 'server')
    expect(servers).toHaveLength(1)
  })

  it('an unseated server stays on the books for the recovery, as one that answers nowhere', async () => {
    await store.ledger.register(server('dead'))
    await openAgent(store.ledger, 'agent', 'dead')
    expect(await store.ledger.unseatServer('dead', server('next'), scope('host-next'))).toBe(true)
    expect(await scopeOf(store.ledger, 'host-next')).toBeDefined()
    expect((await byId(store.ledger)).dead).toMatchObject({ role: 'command', address: undefined })
    expect((await store.ledger.contents('dead')).scopes.map(({ id }) => id)).toContain('agent')
  })

  it('who has no seat cannot be unseated, and nobody is registered in its place', async () => {
    await store.ledger.register(incarnation('command'))
    expect(await store.ledger.unseatServer('command', server('next'))).toBe(false)
    expect(await store.ledger.unseatServer('nobody', server('next'))).toBe(false)
    expect(Object.keys(await byId(store.ledger))).toEqual(['command'])
  })
}

function claiming(store: Store): void {
  it('exactly one of many who saw the same claim gets it', async () => {
    const other = await store.reopen()
    await store.ledger.register(incarnation('dead'))
    const tries = Array.from({ length: contenders }, (_, index) =>
      (index % 2 ? store.ledger : other).claim('dead', `by${index}`, undefined),
    )
    const answers = await Promise.all(tries)
    expect(count(answers)).toBe(1)
    expect((await byId(store.ledger)).dead?.claimedBy).toBe(`by${answers.indexOf(true)}`)
  })

  it('a claim is taken over only by those who saw it', async () => {
    await store.ledger.register(incarnation('dead'))
    await store.ledger.claim('dead', 'a', undefined)
    expect(await store.ledger.claim('dead', 'b', undefined)).toBe(false)
    expect(await store.ledger.claim('dead', 'b', 'somebody')).toBe(false)
    expect(await store.ledger.claim('dead', 'b', 'a')).toBe(true)
    expect((await byId(store.ledger)).dead?.claimedBy).toBe('b')
  })

  it('nobody can claim an incarnation that is not on the books', async () => {
    expect(await store.ledger.claim('nobody', 'a', undefined)).toBe(false)
  })
}

function retiring(store: Store): void {
  it('an incarnation is kept while a scope of it is not closed', async () => {
    await store.ledger.register(incarnation('i1'))
    await openAgent(store.ledger)
    expect(await store.ledger.retire('i1')).toBe(false)
    await store.ledger.beginClose('agent', { trigger: 'completed' })
    expect(await store.ledger.retire('i1')).toBe(false)
    expect(Object.keys(await byId(store.ledger))).toEqual(['i1'])
  })

  it.each(['stuck', 'closing'] as const)('an incarnation is kept while a resource of it is %s', async (state) => {
    await store.ledger.register(incarnation('i1'))
    await holdResources(store.ledger, 'agent', 2)
    const outcomes = [released('agent.1'), { resourceId: 'agent.2', state, attempts: 1, error: 'busy' }]
    await store.ledger.settle(settlement({ outcomes, closedScopeIds: ['agent'] }))
    expect(await store.ledger.retire('i1')).toBe(false)
    expect(await scopeOf(store.ledger, 'agent')).toBeDefined()
  })

  it('an incarnation with nothing open goes, with its closed scopes, and the others stay', async () => {
    await Promise.all([store.ledger.register(incarnation('i1')), store.ledger.register(incarnation('i2'))])
    await holdResources(store.ledger, 'agent', 1)
    await openAgent(store.ledger, 'other', 'i2')
    await store.ledger.settle(settlement({ outcomes: [released('agent.1')], closedScopeIds: ['agent'] }))
    expect(await store.ledger.retire('i1')).toBe(true)
    expect(Object.keys(await byId(store.ledger))).toEqual(['i2'])
    expect(await statesOf(store.ledger)).toEqual({ 'host-i2': 'open', other: 'open' })
  })

  it('retiring twice, or somebody who never registered, is no complaint', async () => {
    await store.ledger.register(incarnation('i1'))
    expect(await store.ledger.retire('i1')).toBe(true)
    expect(await store.ledger.retire('i1')).toBe(true)
    expect(await store.ledger.retire('nobody')).toBe(true)
  })

  it('a resource that was adopted from another incarnation belongs to the one whose scope took it in', async () => {
    await store.ledger.register(incarnation('i1'))
    await openAgent(store.ledger, 'reaped')
    await store.ledger.adopt('reaped', intent('reaped', 1, { id: 'lost.1', incarnation: 'gone' }))
    expect(await store.ledger.retire('gone')).toBe(true)
    expect(await store.ledger.retire('i1')).toBe(false)
    expect((await store.ledger.contents('i1')).resources).toMatchObject([{ id: 'lost.1', incarnation: 'gone', state: 'held' }])
    expect((await store.ledger.contents('gone')).resources).toEqual([])
  })
}
