import { expect, it } from 'vitest'
import { create, createInScope, end, newMessage, openOwner, say, statusOf } from './agent-records.ts'
import type { AgentsUnderTest } from './connections.ts'
import { incarnation, intent, openAgent, report, scopeOf, settlement } from './records.ts'

/** Test cases for the rows of agents in the transaction that closes their scopes. */
export function agentEndCases(store: AgentsUnderTest): void {
  settling(store)
  lasting(store)
  forgetting(store)
  retiring(store)
}

function settling(store: AgentsUnderTest): void {
  it('settle: an agent ends in the transaction that closes its scope', async () => {
    await createInScope(store, 'a')
    await store.agents.change('a', { status: 'stopping' })
    const error = { name: 'exit_code', message: 'The agent exited with code 3.' }
    const ended = [end('a', { status: 'failed', error, exit: { code: 3, signal: null } })]
    await store.ledger.settle(settlement({ closedScopeIds: ['a'], agents: { ended, stuckIds: [] } }))
    expect(await scopeOf(store.ledger, 'a')).toMatchObject({ state: 'closed' })
    expect(await store.agents.find('a')).toMatchObject({
      agent: { status: 'failed', error, exitCode: 3, completedAt: '2026-11-15T09:00:09.000Z' },
      report: report('a'),
    })
  })

  it('settle: an end without exit and error keeps the known ones', async () => {
    await createInScope(store, 'a')
    await store.agents.change('a', { exit: { code: null, signal: 'SIGSEGV' }, error: { name: 'n', message: 'm' } })
    await store.ledger.settle(settlement({ agents: { ended: [end('a')], stuckIds: [] } }))
    expect((await store.agents.find('a'))?.agent).toMatchObject({ status: 'completed', signal: 'SIGSEGV', error: { name: 'n' } })
  })

  it('settle: the agent has not ended when the settlement of its scope fails', async () => {
    await createInScope(store, 'a')
    const stored = { id: 'r', body: report('a') }
    await store.ledger.settle(settlement({ report: stored }))
    const again = settlement({ closedScopeIds: ['a'], agents: { ended: [end('a')], stuckIds: [] }, report: stored })
    await expect(store.ledger.settle(again)).rejects.toThrow()
    expect(await statusOf(store.agents, 'a')).toBe('initializing')
  })

  it('settle: an agent is stuck while it cannot be released, and ends when it can', async () => {
    await createInScope(store, 'a')
    await store.ledger.settle(settlement({ agents: { ended: [], stuckIds: ['a', 'nobody'] } }))
    expect(await statusOf(store.agents, 'a')).toBe('stuck')
    await store.ledger.settle(settlement({ closedScopeIds: ['a'], agents: { ended: [end('a', { status: 'terminated' })], stuckIds: [] } }))
    expect(await statusOf(store.agents, 'a')).toBe('terminated')
  })
}

function lasting(store: AgentsUnderTest): void {
  it.each(['completed', 'failed', 'terminated'] as const)('change and settle: the status %s is final', async (status) => {
    await createInScope(store, 'a')
    await store.ledger.settle(settlement({ agents: { ended: [end('a', { status })], stuckIds: [] } }))
    const before = await store.agents.find('a')
    await store.agents.change('a', { status: 'stopping', error: { name: 'late', message: 'late' }, exit: { code: 9, signal: null } })
    const other = status === 'completed' ? 'failed' : 'completed'
    const late = end('a', { status: other, completedAt: '2027-01-01T00:00:00.000Z', report: report('other') })
    await store.ledger.settle(settlement({ agents: { ended: [late], stuckIds: ['a'] } }))
    expect(await store.agents.find('a')).toEqual(before)
  })

  it('change: an ended agent that cannot be deleted becomes stuck, and keeps its end and its report', async () => {
    await createInScope(store, 'a')
    await store.ledger.settle(settlement({ agents: { ended: [end('a')], stuckIds: [] } }))
    const before = await store.agents.find('a')
    await store.agents.change('a', { status: 'stuck' })
    await store.agents.change('a', { status: 'running', error: { name: 'late', message: 'late' } })
    expect(await store.agents.find('a')).toEqual({ ...before, agent: { ...before?.agent, status: 'stuck' } })
  })

  it('save: messages after the end are kept', async () => {
    await createInScope(store, 'a')
    await store.ledger.settle(settlement({ agents: { ended: [end('a')], stuckIds: [] } }))
    await store.agents.save([{ agentId: 'a', messages: [newMessage('late')] }])
    expect((await store.agents.find('a'))?.agent).toMatchObject({ status: 'completed', session: { messageCount: 2 } })
  })
}

function forgetting(store: AgentsUnderTest): void {
  it('settle: forgetting a scope deletes the row, messages, positions and owner name', async () => {
    await createInScope(store, 'a')
    await createInScope(store, 'b')
    await say(store.agents, 'a', 20)
    await store.agents.save([{ agentId: 'a', messages: [], position: { stream: 'stdout', from: 0, to: 7 } }])
    await openAgent(store.ledger, 'request-1')
    await openOwner(store, { kind: 'request', namespace: 'n', id: 'r', scopeId: 'request-1', createdAt: '2026-11-15T09:00:00.000Z' })
    await store.ledger.settle(
      settlement({ forgottenScopeIds: ['a', 'request-1'], agents: { ended: [end('a', { status: 'terminated' })], stuckIds: [] } }),
    )
    expect(await store.agents.find('a')).toBeUndefined()
    expect(await store.agents.totals(undefined, new Set())).toEqual({ agents: 1, messages: 1 })
    expect(await store.agents.positions('a')).toEqual([])
    expect(await store.agents.findOwner('request', 'n', 'r')).toBeUndefined()
    expect(await scopeOf(store.ledger, 'a')).toBeUndefined()
  })

  it('settle: agents that ended before below a forgotten scope keep their rows and scopes until they are removed', async () => {
    await openAgent(store.ledger, 'namespace-1')
    await store.ledger.open({ scopes: [{ id: 'task-1', kind: 'task', parentId: 'namespace-1', incarnation: 'i1' }] })
    for (const id of ['ended', 'going']) {
      await store.ledger.open({ scopes: [{ id, kind: 'agent', parentId: 'task-1', incarnation: 'i1' }] })
      await store.ledger.intend(id, [intent(id, 1)])
      await create(store, id)
    }
    await store.ledger.settle(settlement({ closedScopeIds: ['ended'], agents: { ended: [end('ended')], stuckIds: [] } }))
    await store.ledger.settle(settlement({ forgottenScopeIds: ['namespace-1', 'task-1', 'going'] }))
    expect(await store.agents.find('going')).toBeUndefined()
    expect(await store.ledger.resources('going')).toEqual([])
    expect((await store.ledger.resources('ended')).map(({ id }) => id)).toEqual(['ended.1'])
    await store.agents.remove(['ended'])
    expect(await store.ledger.resources('ended')).toEqual([])
  })

  it('save: messages for a forgotten agent are not saved', async () => {
    await createInScope(store, 'a')
    await store.ledger.settle(settlement({ forgottenScopeIds: ['a'] }))
    expect(await store.agents.save([{ agentId: 'a', messages: [newMessage('late')] }])).toEqual([[]])
    expect(await store.agents.totals(undefined, new Set())).toEqual({ agents: 0, messages: 0 })
  })
}

function retiring(store: AgentsUnderTest): void {
  it('retire: keeps only the scopes of agents that still have a row', async () => {
    await store.ledger.register(incarnation('i1'))
    await createInScope(store, 'kept')
    await openAgent(store.ledger, 'unknown')
    await store.ledger.settle(settlement({ closedScopeIds: ['kept', 'unknown', 'host-i1'] }))
    expect(await store.ledger.retire('i1')).toBe(true)
    expect((await store.ledger.contents()).scopes.map(({ id }) => id)).toEqual(['kept'])
    expect(await statusOf(store.agents, 'kept')).toBe('initializing')
    await store.agents.remove(['kept'])
    expect((await store.ledger.contents()).scopes).toEqual([])
  })

  it('retire: does not change the agents of another incarnation', async () => {
    await store.ledger.register(incarnation('i1'))
    await openAgent(store.ledger, 'theirs', 'i2')
    await create(store, 'theirs', { incarnation: 'i2' })
    expect(await store.ledger.retire('i1')).toBe(true)
    expect(await scopeOf(store.ledger, 'theirs')).toMatchObject({ state: 'open', parentId: 'host-i2' })
  })
}
