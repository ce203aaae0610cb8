import { expect, it } from 'vitest'
import type { OwnerRecord } from '../../../src/core/ports/agents.ts'
import { openOwner } from './agent-records.ts'
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
  it('findOwner: finds a request by its name, with the state of its scope', async () => {
    await openAgent(store.ledger, 's1')
    await openOwner(store, owner('r', 's1'))
    expect(await store.agents.findOwner('request', 'n', 'r')).toEqual({ ...owner('r', 's1'), state: 'open' })
    await store.ledger.beginClose('s1', { trigger: 'request-finished' })
    expect(await store.agents.findOwner('request', 'n', 'r')).toMatchObject({ state: 'closing' })
    await store.ledger.settle(settlement({ closedScopeIds: ['s1'] }))
    expect(await store.agents.findOwner('request', 'n', 'r')).toMatchObject({ state: 'closed' })
  })

  it('newOwner: keeps the time at which a request closes', async () => {
    const row = owner('r', 's1', { closesAt: '2026-11-15T10:00:00.000Z' })
    await openAgent(store.ledger, 's1')
    await openOwner(store, row)
    expect(await (await store.reopen()).agents.findOwner('request', 'n', 'r')).toEqual({ ...row, state: 'open' })
  })

  it('findOwner: a name whose scope is no longer in the ledger is closed', async () => {
    await openOwner(store, owner('r', 'gone'))
    expect(await store.agents.findOwner('request', 'n', 'r')).toMatchObject({ state: 'closed' })
    await expect(openOwner(store, owner('r', 'another'))).rejects.toMatchObject({ code: 'scope_closed' })
  })

  it('newOwner: names are separate per kind and namespace', async () => {
    await openOwner(store, owner('x', 's1'))
    await openOwner(store, owner('x', 's2', { kind: 'task' }))
    await openOwner(store, owner('x', 's3', { namespace: 'm' }))
    expect(await store.agents.findOwner('task', 'n', 'x')).toMatchObject({ scopeId: 's2' })
    expect(await store.agents.findOwner('request', 'm', 'x')).toMatchObject({ scopeId: 's3' })
    expect(await store.agents.findOwner('task', 'm', 'x')).toBeUndefined()
  })

  it('newOwner: of two connections that open the same name, one succeeds', async () => {
    const other = await store.reopen()
    const opened = await Promise.allSettled([openOwner(store, owner('r', 's1')), openOwner(other, owner('r', 's2'))])
    expect(opened.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  })

  it('removeOwners: deletes closed names, of a namespace or of all, and keeps open ones', async () => {
    await openAgent(store.ledger, 's1')
    await openOwner(store, owner('open', 's1'))
    await openOwner(store, owner('closed', 's2'))
    await openOwner(store, owner('elsewhere', 's3', { namespace: 'm' }))
    await store.agents.removeOwners('n')
    expect(await store.agents.findOwner('request', 'n', 'closed')).toBeUndefined()
    expect(await store.agents.findOwner('request', 'm', 'elsewhere')).toBeDefined()
    await store.agents.removeOwners(undefined)
    expect(await store.agents.findOwner('request', 'm', 'elsewhere')).toBeUndefined()
    expect(await store.agents.findOwner('request', 'n', 'open')).toMatchObject({ state: 'open' })
  })
}
