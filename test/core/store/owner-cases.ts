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
  it('findOwner: finds a request by its name, with the state of its scope', async () => {
    await openAgent(store.ledger, 's1')
    await store.agents.openOwner(owner('r', 's1'))
    expect(await store.agents.findOwner('request', 'n', 'r')).toEqual({ ...owner('r', 's1'), state: 'open' })
    await store.ledger.beginClose('s1', { trigger: 'request-finished' })
    expect(await store.agents.findOwner('request', 'n', 'r')).toMatchObject({ state: 'closing' })
    await store.ledger.settle(settlement({ closedScopeIds: ['s1'] }))
    expect(await store.agents.findOwner('request', 'n', 'r')).toMatchObject({ state: 'closed' })
  })

  it('openOwner: keeps the time at which a request closes', async () => {
    const row = owner('r', 's1', { closesAt: '2026-11-15T10:00:00.000Z' })
    await openAgent(store.ledger, 's1')
    await store.agents.openOwner(row)
    expect(await (await store.reopen()).agents.findOwner('request', 'n', 'r')).toEqual({ ...row, state: 'open' })
  })

  it('findOwner: a name whose scope is no longer in the ledger is closed', async () => {
    await store.agents.openOwner(owner('r', 'gone'))
    expect(await store.agents.findOwner('request', 'n', 'r')).toMatchObject({ state: 'closed' })
    await expect(store.agents.openOwner(owner('r', 'another'))).rejects.toMatchObject({ code: 'scope_closed' })
  })

  it('openOwner: names are separate per kind and namespace', async () => {
    await store.agents.openOwner(owner('x', 's1'))
    await store.agents.openOwner(owner('x', 's2', { kind: 'task' }))
    await store.agents.openOwner(owner('x', 's3', { namespace: 'm' }))
    expect(await store.agents.findOwner('task', 'n', 'x')).toMatchObject({ scopeId: 's2' })
    expect(await store.agents.findOwner('request', 'm', 'x')).toMatchObject({ scopeId: 's3' })
    expect(await store.agents.findOwner('task', 'm', 'x')).toBeUndefined()
  })

  it('openOwner: of two connections that open the same name, one succeeds', async () => {
    const other = await store.reopen()
    const opened = await Promise.allSettled([store.agents.openOwner(owner('r', 's1')), other.agents.openOwner(owner('r', 's2'))])
    expect(opened.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  })

  it('removeOwners: deletes closed names, of a namespace or of all, and keeps open ones', async () => {
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
