import { expect, it } from 'vitest'
import type { Ledger } from '../../../src/core/ports/ledger.ts'
import type { Store } from './connections.ts'
import { holdResources, incarnation, intent, openAgent, released, report, scope, scopeOf, server, settlement } from './records.ts'

export function sharingCases(store: Store): void {
  it('contents: of one incarnation or of all', async () => {
    await openAgent(store.ledger, 'mine', 'i1')
    await openAgent(store.ledger, 'theirs', 'i2')
    await store.ledger.intend('theirs', [intent('theirs', 1, { incarnation: 'i2' })])
    const own = await store.ledger.contents('i1')
    expect(own.scopes.map(({ id }) => id).toSorted()).toEqual(['host-i1', 'mine'])
    expect(own.resources).toEqual([])
    expect((await store.ledger.contents('i2')).resources.map(({ id }) => id)).toEqual(['theirs.1'])
    const all = await store.ledger.contents()
    expect([all.scopes.length, all.resources.length]).toEqual([4, 1])
  })

  it('reopen: all records are kept', async () => {
    await fill(store.ledger)
    const before = await everything(store.ledger)
    await store.ledger[Symbol.asyncDispose]()
    expect(await everything(await store.reopen())).toEqual(before)
  })

  it('close: a write that was requested before is not lost', async () => {
    const asked = store.ledger.open({ scopes: [scope('host-i1')] })
    await store.ledger[Symbol.asyncDispose]()
    await asked
    expect(await scopeOf(await store.reopen(), 'host-i1')).toBeDefined()
  })

  it('close: closing a ledger twice is closing it once (G5)', async () => {
    await store.ledger[Symbol.asyncDispose]()
    await store.ledger[Symbol.asyncDispose]()
  })

  it('two connections: each sees the writes of the other at once', async () => {
    const other = await store.reopen()
    await openAgent(store.ledger)
    await other.intend('agent', [intent('agent', 1)])
    await store.ledger.hold([{ resourceId: 'agent.1', detail: { pid: 1 } }])
    await other.beginClose('agent', { trigger: 'terminated' })
    await expect(store.ledger.intend('agent', [intent('agent', 2)])).rejects.toMatchObject({ code: 'scope_closed' })
    expect(await everything(store.ledger)).toEqual(await everything(other))
  })

  it('two connections: simultaneous writes lose nothing', async () => {
    const other = await store.reopen()
    await openAgent(store.ledger)
    const plans = Array.from({ length: 60 }, (_, index) => (index % 2 ? store.ledger : other).intend('agent', [intent('agent', index + 1)]))
    await Promise.all(plans)
    expect((await other.contents()).resources).toHaveLength(60)
  })
}

async function fill(ledger: Ledger): Promise<void> {
  await ledger.register(server('i1'))
  await ledger.register(incarnation('dead'))
  await ledger.claim('dead', 'i1', undefined)
  await holdResources(ledger, 'agent', 2)
  await ledger.intend('agent', [intent('agent', 3, { spec: { nested: { list: [1, 'zwei', null] } } })])
  await ledger.record('agent.3', { inode: '12345678901234567890' })
  await ledger.beginClose('agent', { trigger: 'deleted', force: true, deadlineMs: 100 })
  const stuck = { resourceId: 'agent.2', state: 'stuck', attempts: 7, error: 'no' } as const
  await ledger.settle(settlement({ outcomes: [released('agent.1'), stuck], report: { id: 'r', body: report('agent') } }))
  await ledger.sight('log', '/a', 'boot', 12.25)
}

async function everything(ledger: Ledger): Promise<unknown> {
  const { scopes, resources } = await ledger.contents()
  const byId = (a: { id: string }, b: { id: string }): number => a.id.localeCompare(b.id)
  return {
    incarnations: (await ledger.incarnations()).toSorted(byId),
    scopes: scopes.toSorted(byId),
    resources: resources.toSorted(byId),
    reports: await ledger.reports(10),
  }
}
