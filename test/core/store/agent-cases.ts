import { expect, it } from 'vitest'
import { nextTurn as turn } from '../../../src/core/ports/turn.ts'
import { create, createInScope, end, newAgent, newMessage, say, statusOf } from './agent-records.ts'
import type { AgentsUnderTest } from './connections.ts'
import { openAgent, scopeOf, settlement } from './records.ts'

export function agentCases(store: AgentsUnderTest): void {
  creating(store)
  changing(store)
  listing(store)
  listingAsJson(store)
  removing(store)
}

function creating(store: AgentsUnderTest): void {
  it('newAgent: a new agent is initializing, and its prompt is its first message', async () => {
    const configuration = { workingDirectory: '/ä', conversationName: 'c', metadata: { deep: { list: [1, null] } }, model: 'm' }
    const created = newAgent('a', { name: 'Ada', requestId: 'r', taskId: 't', parentAgentId: 'p', configuration })
    const first = newMessage(created.prompt, { id: 'first', type: 'user', role: 'user' })
    await store.ledger.open({ scopes: [], rows: [store.agents.newAgent(created, first)] })
    const { type, placement, namespace, prompt, createdAt } = created
    expect(await store.agents.find('a')).toEqual({
      agent: {
        id: 'a',
        name: 'Ada',
        type,
        placement,
        namespace,
        requestId: 'r',
        taskId: 't',
        parentAgentId: 'p',
        status: 'initializing',
        session: { id: 'a', prompt, messageCount: 1, configuration },
        createdAt,
      },
      incarnation: 'i1',
    })
    expect(await store.agents.messages('a', 0, 10)).toEqual([
      { id: 'first', agentId: 'a', sequenceNumber: 1, type: 'user', role: 'user', content: prompt, createdAt },
    ])
  })

  it('newAgent: the session id is the given one, else the id of the agent', async () => {
    await create(store, 'a', { configuration: { sessionId: 'earlier' } })
    await create(store, 'b')
    expect((await store.agents.find('a'))?.agent.session.id).toBe('earlier')
    expect((await store.agents.find('b'))?.agent.session.id).toBe('b')
  })

  it('newAgent: a second agent with the same id is refused and changes nothing', async () => {
    await create(store, 'a', { prompt: 'the first' })
    await expect(create(store, 'a', { prompt: 'the second' })).rejects.toThrow()
    expect((await store.agents.find('a'))?.agent.session).toMatchObject({ prompt: 'the first', messageCount: 1 })
    expect(await store.agents.messages('a', 0, 10)).toHaveLength(1)
  })

  it('find: an unknown agent is undefined', async () => {
    expect(await store.agents.find('nobody')).toBeUndefined()
    expect(await store.agents.messages('nobody', 0, 10)).toEqual([])
    expect(await store.agents.positions('nobody')).toEqual([])
    await store.agents.change('nobody', { status: 'running' })
    await store.agents.trim('nobody')
    expect(await store.agents.remove(['nobody'])).toEqual({ agents: 0, messages: 0, ids: new Set() })
  })

  it('newAgent: another connection sees the agent at once', async () => {
    const other = await store.reopen()
    await create(store, 'a')
    expect(await statusOf(other.agents, 'a')).toBe('initializing')
    await other.agents.change('a', { status: 'running' })
    expect(await statusOf(store.agents, 'a')).toBe('running')
  })
}

function changing(store: AgentsUnderTest): void {
  it('change: updates only the given fields', async () => {
    await create(store, 'a')
    await store.agents.change('a', { status: 'running', startedAt: '2026-11-15T09:00:01.000Z' })
    await store.agents.change('a', { exit: { code: 0, signal: null } })
    await store.agents.change('a', { error: { name: 'n', message: 'm' }, result: { isSuccess: false } })
    const record = await store.agents.find('a')
    expect(record?.agent).toMatchObject({ status: 'running', startedAt: '2026-11-15T09:00:01.000Z', exitCode: 0 })
    expect(record?.agent).not.toHaveProperty('signal')
    expect(record).toMatchObject({ agent: { error: { name: 'n', message: 'm' } }, result: { isSuccess: false } })
  })

  it('change: changes apply in the order of the calls', async () => {
    await create(store, 'a')
    const statuses = ['running', 'initializing', 'running', 'stopping'] as const
    await Promise.all(statuses.map((status) => store.agents.change('a', { status })))
    expect(await statusOf(store.agents, 'a')).toBe('stopping')
  })

  it('change: an invalid status is refused', async () => {
    await create(store, 'a')
    await expect(store.agents.change('a', { status: 'dancing' as 'running' })).rejects.toThrow()
    expect(await statusOf(store.agents, 'a')).toBe('initializing')
  })
}

function listing(store: AgentsUnderTest): void {
  const listed = async (filter: Parameters<typeof store.agents.list>[0]): Promise<string> =>
    (await store.agents.list(filter)).agents.map(({ id }) => id).join('')

  it('list: newest first, by the order of creation and not by the clock', async () => {
    for (const [index, id] of ['a', 'b', 'c'].entries()) await create(store, id, { createdAt: `2026-11-15T09:00:0${9 - index}.000Z` })
    expect(await listed({})).toBe('cba')
  })

  it('list: filters by namespace, status, request, task and incarnation, and by all of them', async () => {
    await create(store, 'a', { namespace: 'n', requestId: 'r', incarnation: 'i2' })
    await create(store, 'b', { namespace: 'n', taskId: 't' })
    await create(store, 'c', { requestId: 'r' })
    await store.agents.change('b', { status: 'running' })
    await store.agents.change('c', { status: 'stuck' })
    expect(await listed({ namespace: 'n' })).toBe('ba')
    expect(await listed({ statuses: ['running', 'stuck'] })).toBe('cb')
    expect(await listed({ statuses: [] })).toBe('')
    expect(await listed({ requestId: 'r' })).toBe('ca')
    expect(await listed({ taskId: 't' })).toBe('b')
    expect(await listed({ exceptIncarnations: new Set(['i2', 'i3']) })).toBe('cb')
    expect(await listed({ exceptIncarnations: new Set() })).toBe('cba')
    expect(await listed({ namespace: 'n', requestId: 'r', statuses: ['initializing'] })).toBe('a')
  })

  it('namespacesOf: returns the namespaces of existing agents', async () => {
    await create(store, 'a', { namespace: 'one' })
    await create(store, 'b', { namespace: 'two' })
    await create(store, 'c', { namespace: 'two' })
    const found = await store.agents.namespacesOf(['a', 'b', 'b', 'nobody', "it's"])
    expect([...found].toSorted()).toEqual([
      ['a', 'one'],
      ['b', 'two'],
    ])
    expect((await store.agents.namespacesOf([])).size).toBe(0)
  })

  it('list: a cursor continues after the page, whatever was created or removed meanwhile', async () => {
    for (const id of ['a', 'b', 'c', 'd', 'e']) await create(store, id)
    const first = await store.agents.list({ limit: 2 })
    expect(first.agents.map(({ id }) => id)).toEqual(['e', 'd'])
    await create(store, 'f')
    await store.agents.remove(['d'])
    const cursor = first.nextCursor ?? ''
    const second = await store.agents.list({ limit: 2, cursor })
    expect(second.agents.map(({ id }) => id)).toEqual(['c', 'b'])
    const last = await store.agents.list({ limit: 2, cursor: second.nextCursor ?? '' })
    expect(last.agents.map(({ id }) => id)).toEqual(['a'])
    expect(last).not.toHaveProperty('nextCursor')
  })

  it('list: a page that is exactly full has no next page', async () => {
    for (const id of ['a', 'b']) await create(store, id)
    expect(await store.agents.list({ limit: 2 })).not.toHaveProperty('nextCursor')
  })
}

/** Texts that are difficult to write as JSON. */
const texts = [
  'plain',
  '',
  'null',
  '"quoted" \\ \\" \'single\' `back`',
  'line\nbreak\r\ttab\u0000nul\u0001\u001f\u007f',
  'ä ß 漢字 🌊 👩\u200d💻 e\u0301',
  '\u2028\u2029\ufeff\ufffd\uffff',
  '{"json":[1,null]} </script> %s || \'; DROP TABLE agent; --',
  '\ud800 half of a pair, the other \udc00',
  'x'.repeat(100_000),
]

function listingAsJson(store: AgentsUnderTest): void {
  const parsed = async (filter: Parameters<typeof store.agents.list>[0] = {}): Promise<unknown> =>
    JSON.parse((await store.agents.listJson(filter)).json)

  it.each(texts.map((text, index) => [index, text] as const))('listJson: equals the list for difficult texts: %i', async (_index, text) => {
    const configuration = {
      workingDirectory: text,
      conversationName: text,
      sessionId: text,
      model: text,
      metadata: { [text]: text, deep: [{ [text]: null }, [text], true, -0.5, 1e21] },
      limits: { memoryBytes: 1, pids: 2, logBytes: 3 },
    }
    const labels = { name: text, type: text, placement: text, namespace: text, requestId: text, taskId: text, parentAgentId: text }
    await create(store, 'a', { ...labels, prompt: text, configuration })
    await store.agents.change('a', {
      status: 'stuck',
      startedAt: '2026-11-15T09:00:01.000Z',
      exit: { code: 0, signal: text },
      error: { name: text, message: text },
    })
    await create(store, 'b', { prompt: text, configuration: { metadata: { [text]: text } } })
    const { agents } = await store.agents.list({})
    expect(agents).toHaveLength(2)
    expect(await parsed()).toEqual(agents)
    expect(agents[1]?.session.configuration).toEqual(configuration)
  })

  it('listJson: has no field for an unset value', async () => {
    await create(store, 'a')
    const [agent] = (await parsed()) as [Record<string, unknown>]
    expect(Object.keys(agent)).toEqual(['id', 'type', 'status', 'placement', 'namespace', 'session', 'createdAt'])
    expect(agent).toEqual((await store.agents.list({})).agents[0])
    expect(await parsed({ namespace: 'none' })).toEqual([])
  })

  it('listJson: has the end of an ended agent', async () => {
    for (const id of ['a', 'b', 'c']) await createInScope(store, id)
    const ended = [
      end('a', { status: 'failed', exit: { code: 255, signal: null }, error: { name: 'n', message: 'm' } }),
      end('b', { exit: { code: null, signal: 'SIGKILL' } }),
      end('c'),
    ]
    await store.ledger.settle(settlement({ agents: { ended, stuckIds: [] } }))
    expect(await parsed()).toEqual((await store.agents.list({})).agents)
  })

  it('listJson: has the same pages and filters as list', async () => {
    for (const id of ['a', 'b', 'c', 'd']) await create(store, id, { namespace: id === 'b' ? 'n' : 'default' })
    for (const filter of [{ limit: 2 }, { limit: 4 }, { limit: 1, cursor: '3' }, { namespace: 'n' }, { statuses: ['running' as const] }]) {
      const { agents, ...next } = await store.agents.list(filter)
      const { json, ...nextOfJson } = await store.agents.listJson(filter)
      expect([JSON.parse(json), nextOfJson]).toEqual([agents, next])
    }
  })
}

function removing(store: AgentsUnderTest): void {
  it('remove: deletes row, messages, positions and scope, and returns the counts', async () => {
    await openAgent(store.ledger, 'a')
    await openAgent(store.ledger, 'b')
    for (const id of ['a', 'b', 'c']) await create(store, id)
    await say(store.agents, 'a', 3)
    await store.agents.save([{ agentId: 'a', messages: [], position: { stream: 'stdout', from: 0, to: 7 } }])
    expect(await store.agents.remove(['a', 'c', 'nobody'])).toEqual({ agents: 2, messages: 5, ids: new Set(['a', 'c']) })
    expect(await store.agents.find('a')).toBeUndefined()
    expect(await store.agents.messages('a', 0, 10)).toEqual([])
    expect(await store.agents.positions('a')).toEqual([])
    expect(await scopeOf(store.ledger, 'a')).toBeUndefined()
    expect(await scopeOf(store.ledger, 'b')).toBeDefined()
    expect(await statusOf(store.agents, 'b')).toBe('initializing')
  })

  it('remove: an id that is used again starts empty', async () => {
    await create(store, 'a')
    await store.agents.save([{ agentId: 'a', messages: [newMessage('old')], position: { stream: 'stdout', from: 0, to: 4 } }])
    await store.agents.remove(['a'])
    await create(store, 'a')
    expect(await store.agents.positions('a')).toEqual([])
    expect(await store.agents.messages('a', 0, 10)).toHaveLength(1)
  })

  it('remove: deletes an agent with very many messages, and others can write meanwhile', async () => {
    await create(store, 'a')
    await create(store, 'b')
    await say(store.agents, 'a', 30_000)
    const removed = new AbortController()
    const removal = store.agents.remove(['a']).finally(() => removed.abort())
    let writes = 0
    for (; !removed.signal.aborted; writes++) {
      await store.agents.save([{ agentId: 'b', messages: [newMessage('between')] }])
      await turn()
    }
    expect(await removal).toMatchObject({ agents: 1, messages: 30_001 })
    expect(writes).toBeGreaterThan(3)
    expect(await store.agents.totals(undefined, new Set())).toEqual({ agents: 1, messages: 1 + writes })
  })

  it('trim: leaves an agent with fewer messages, its prompt and no gap', async () => {
    await create(store, 'a')
    await say(store.agents, 'a', 12_000)
    expect(await store.agents.trim('a')).toBe(10_000)
    const left = await store.agents.messages('a', 0, 20_000)
    expect(left.map(({ sequenceNumber }) => sequenceNumber)).toEqual(Array.from({ length: 2_001 }, (_, index) => index + 1))
    expect((await store.agents.find('a'))?.agent.session.messageCount).toBe(2_001)
    expect(await store.agents.remove(['a'])).toMatchObject({ agents: 1, messages: 2_001 })
  })

  it('totals: of a namespace or of all, without the given incarnations', async () => {
    await create(store, 'a', { namespace: 'n' })
    await create(store, 'b', { namespace: 'n', incarnation: 'i2' })
    await create(store, 'c')
    await say(store.agents, 'b', 4)
    expect(await store.agents.totals(undefined, new Set())).toEqual({ agents: 3, messages: 7 })
    expect(await store.agents.totals('n', new Set())).toEqual({ agents: 2, messages: 6 })
    expect(await store.agents.totals('n', new Set(['i2']))).toEqual({ agents: 1, messages: 1 })
    expect(await store.agents.totals('none', new Set())).toEqual({ agents: 0, messages: 0 })
  })
}
