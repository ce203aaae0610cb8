import { expect, it } from 'vitest'
import type { OwnerRecord } from '../../../src/core/ports/agents.ts'
import type { AgentsUnderTest } from './connections.ts'
import { openAgent, settlement } from './records.ts'

const owner = (id: string, scopeId: string, more: Partial<OwnerRecord> = {}): Omit<OwnerRecord, 'state'> => ({
  kind: 'request',
  namespace: 'n',
  id,
  scopeId,
  createdAt: '2026-11-15T09:00:00.000Z',
  ...more,
})

export function ownerCases(store: AgentsUnderTest): void {
  it('a request is found by its name, and is open or closed as its scope is', async () => {
    await openAgent(store.ledger, 's1')
    await store.agents.openOwner(owner('r', 's1'))
    expect(await store.agents.findOwner('request', 'n', 'r')).toEqual({ ...owner('r', 's1'), state: 'open' })
    await store.ledger.beginClose('s1', { trigger: 'request-finished' })
    expect(await store.agents.findOwner('request', 'n', 'r')).toMatchObject({ state: 'closing' })
    await store.ledger.settle(settlement({ closedScopeIds: ['s1'] }))
    expect(await store.agents.findOwner('request', 'n', 'r')).toMatchObject({ state: 'closed' })
  })

  it('the time at which it closes is kept', async () => {
    const row = owner('r', 's1', { closesAt: '2026-11-15T10:00:00.000Z' })
    await openAgent(store.ledger, 's1')
    await store.agents.openOwner(row)
    expect(await (await store.reopen()).agents.findOwner('request', 'n', 'r')).toEqual({ ...row, state: 'open' })
  })

  it('a name whose scope has left the books is closed for good', async () => {
    await store.agents.openOwner(owner('r', 'gone'))
    expect(await store.agents.findOwner('request', 'n', 'r')).toMatchObject({ state: 'closed' })
    await expect(store.agents.openOwner(owner('r', 'another'))).rejects.toMatchObject({ code: 'scope_closed' })
  })

  it('requests and tasks, and namespaces, have names of their own', async () => {
    await store.agents.openOwner(owner('x', 's1'))
    await store.agents.openOwner(owner('x', 's2', { kind: 'task' }))
    await store.agents.openOwner(owner('x', 's3', { namespace: 'm' }))
    expect(await store.agents.findOwner('task', 'n', 'x')).toMatchObject({ scopeId: 's2' })
    expect(await store.agents.findOwner('request', 'm', 'x')).toMatchObject({ scopeId: 's3' })
    expect(await store.agents.findOwner('task', 'm', 'x')).toBeUndefined()
  })

  it('of two connections that open the same name one does', async () => {
    const other = await store.reopen()
    const opened = await Promise.allSettled([store.agents.openOwner(owner('r', 's1')), other.agents.openOwner(owner('r', 's2'))])
    expect(opened.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  })

  it('the names of closed ones can be forgotten, of a namespace or of all; the open ones stay', async () => {
    await openAgent(store.ledger, 's1')
    await store.agents.openOwner(owner('open', 's1'))
    await store.agents.openOwner(owner('closed', 's2'))
    await store.agents.openOwner(owner('elsewhere', 's3', { namespace: 'm' }))
    await store.agents.removeOwners('n')
    expect(await store.agents.findOwner('request', 'n', 'closed')).toBeUndefined()
    expect(await store.agents.findOwner('request', 'm', 'elsewhere')).toBeDefined()
    await store.agents.removeOwners(undefined)
    expect(await store.agents.findOwner('request', 'm', 'elsewhere')).toBeUndefined()
    expect(await store.agents.findOwner('request', 'n', 'open')).toMatchObject({ state: 'open' })
  })
}
