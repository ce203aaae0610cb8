import { expect, it } from 'vitest'
import type { NewMessage, Progress } from '../../../src/core/ports/agents.ts'
import { conversation, create, newMessage, say, statusOf } from './agent-records.ts'
import type { AgentsUnderTest } from './connections.ts'

export function messageCases(store: AgentsUnderTest): void {
  saving(store)
  moving(store)
  sharing(store)
  paging(store)
}

const lines = (...texts: readonly string[]): NewMessage[] => texts.map((text) => newMessage(text))

function saving(store: AgentsUnderTest): void {
  it('save: sequence numbers have no gaps, across saves and streams', async () => {
    await create(store, 'a', { prompt: 'p' })
    const out = (from: number, to: number, ...texts: readonly string[]): Progress => ({
      agentId: 'a',
      messages: lines(...texts),
      position: { stream: 'stdout', from, to },
    })
    const err = (from: number, to: number, ...texts: readonly string[]): Progress => ({
      agentId: 'a',
      messages: lines(...texts),
      position: { stream: 'stderr', from, to },
    })
    await store.agents.save([out(0, 4, 'o1', 'o2'), err(0, 9, 'e1'), out(4, 6, 'o3')])
    await store.agents.save([err(9, 10, 'e2'), { agentId: 'a', messages: lines('of no log') }])
    expect(await conversation(store.agents, 'a')).toEqual(['1 p', '2 o1', '3 o2', '4 e1', '5 o3', '6 e2', '7 of no log'])
    expect((await store.agents.find('a'))?.agent.session.messageCount).toBe(7)
    expect((await store.agents.positions('a')).toSorted((one, other) => one.stream.localeCompare(other.stream))).toEqual([
      { agentId: 'a', stream: 'stderr', offset: 10 },
      { agentId: 'a', stream: 'stdout', offset: 6 },
    ])
  })

  it('save: returns the saved messages as they are read later, one list per item', async () => {
    await create(store, 'a')
    await create(store, 'b')
    const full = newMessage('ä\0\r\u001b[31m "x" 🌊', {
      type: 'tool',
      role: 'assistant',
      raw: { deep: [1, { nul: '\0' }, null] },
      metadata: { stream: 'stderr', truncated: true },
    })
    const saved = await store.agents.save([
      { agentId: 'a', messages: [full] },
      { agentId: 'b', messages: lines('x', 'y') },
      { agentId: 'a', messages: [] },
    ])
    expect(saved.map((list) => list.length)).toEqual([1, 2, 0])
    expect(saved[0]).toEqual(await store.agents.messages('a', 1, 10))
    expect(saved[0]?.[0]).toMatchObject({ ...full, agentId: 'a', sequenceNumber: 2 })
  })

  it('save: messages of an unknown agent are not saved, and those of the others are', async () => {
    await create(store, 'a', { prompt: 'p' })
    const position = { stream: 'stdout', from: 0, to: 1 }
    const saved = await store.agents.save([
      { agentId: 'nobody', messages: lines('x'), position },
      { agentId: 'a', messages: lines('y') },
    ])
    expect(saved.map((list) => list.length)).toEqual([0, 1])
    expect(await store.agents.messages('nobody', 0, 10)).toEqual([])
    expect(await conversation(store.agents, 'a')).toEqual(['1 p', '2 y'])
  })

  it('save: a result is saved together with its messages', async () => {
    await create(store, 'a')
    const result = { isSuccess: false, error: { name: 'e', message: 'm' } }
    await store.agents.save([{ agentId: 'a', messages: lines('done'), position: { stream: 'stdout', from: 0, to: 5 }, result }])
    expect((await store.agents.find('a'))?.result).toEqual(result)
    expect(await statusOf(store.agents, 'a')).toBe('initializing')
  })
}

function moving(store: AgentsUnderTest): void {
  const at = (from: number, to: number, text: string): Progress => ({
    agentId: 'a',
    messages: lines(text),
    position: { stream: 'stdout', from, to },
    result: { isSuccess: true },
  })

  it.each([
    ['the same range again', 0, 4],
    ['a range that begins before the position', 0, 9],
    ['a range that begins after the position', 5, 9],
  ])('save: a range that does not begin at the stored position is not saved: %s', async (_name, from, to) => {
    await create(store, 'a', { prompt: 'p' })
    await store.agents.save([{ agentId: 'a', messages: lines('one'), position: { stream: 'stdout', from: 0, to: 4 } }])
    expect(await store.agents.save([at(from, to, 'stray')])).toEqual([[]])
    expect(await conversation(store.agents, 'a')).toEqual(['1 p', '2 one'])
    expect(await store.agents.positions('a')).toEqual([{ agentId: 'a', stream: 'stdout', offset: 4 }])
    expect(await store.agents.find('a')).not.toHaveProperty('result')
  })

  it('save: a first range that does not begin at 0 is not saved', async () => {
    await create(store, 'a')
    expect(await store.agents.save([at(3, 9, 'stray')])).toEqual([[]])
    expect(await store.agents.positions('a')).toEqual([])
  })

  it('save: the position can move without a message, and a message can be saved without a move', async () => {
    await create(store, 'a')
    await store.agents.save([{ agentId: 'a', messages: [], position: { stream: 'stdout', from: 0, to: 0 } }])
    await store.agents.save([{ agentId: 'a', messages: [], position: { stream: 'stdout', from: 0, to: 3 } }])
    expect(await store.agents.save([at(3, 3, 'same place')])).toMatchObject([[{ sequenceNumber: 2 }]])
    expect(await store.agents.positions('a')).toEqual([{ agentId: 'a', stream: 'stdout', offset: 3 }])
  })

  it('save: of two items with the same range in one call, one is saved', async () => {
    await create(store, 'a', { prompt: 'p' })
    const saved = await store.agents.save([at(0, 4, 'one'), at(0, 4, 'one'), at(4, 8, 'two')])
    expect(saved.map((list) => list.length)).toEqual([1, 0, 1])
    expect(await conversation(store.agents, 'a')).toEqual(['1 p', '2 one', '3 two'])
  })
}

function sharing(store: AgentsUnderTest): void {
  it('save: two connections that read the same log save each line once', async () => {
    const other = await store.reopen()
    await create(store, 'a', { prompt: 'p' })
    const read = async ({ agents }: Pick<AgentsUnderTest, 'agents'>): Promise<void> => {
      for (let line = 0; line < 100; line++) {
        await agents.save([{ agentId: 'a', messages: lines(`line ${line}`), position: { stream: 'stdout', from: line, to: line + 1 } }])
      }
    }
    await Promise.all([read(store), read(other)])
    const expected = Array.from({ length: 100 }, (_, line) => `${line + 2} line ${line}`)
    expect(await conversation(other.agents, 'a')).toEqual(['1 p', ...expected])
  })

  it('save: two connections that save at the same time leave no gap', async () => {
    const other = await store.reopen()
    await create(store, 'a')
    await Promise.all(
      Array.from({ length: 100 }, (_, turn) => (turn % 2 ? store : other).agents.save([{ agentId: 'a', messages: lines('x', 'y') }])),
    )
    const numbers = (await store.agents.messages('a', 0, 1_000)).map(({ sequenceNumber }) => sequenceNumber)
    expect(numbers).toEqual(Array.from({ length: 201 }, (_, index) => index + 1))
  })

  it('reopen: messages, positions and results are kept', async () => {
    await create(store, 'a')
    await say(store.agents, 'a', 10)
    await store.agents.save([{ agentId: 'a', messages: lines('x'), position: { stream: 'stdout', from: 0, to: 2 } }])
    const before = [await store.agents.find('a'), await store.agents.messages('a', 0, 100), await store.agents.positions('a')]
    await store.ledger[Symbol.asyncDispose]()
    const { agents } = await store.reopen()
    expect([await agents.find('a'), await agents.messages('a', 0, 100), await agents.positions('a')]).toEqual(before)
  })
}

function paging(store: AgentsUnderTest): void {
  it('messages: reads from a sequence number on, up to a limit', async () => {
    await create(store, 'a')
    await say(store.agents, 'a', 9)
    const numbers = async (since: number, limit: number): Promise<readonly number[]> =>
      (await store.agents.messages('a', since, limit)).map(({ sequenceNumber }) => sequenceNumber)
    expect(await numbers(0, 3)).toEqual([1, 2, 3])
    expect(await numbers(3, 3)).toEqual([4, 5, 6])
    expect(await numbers(8, 100)).toEqual([9, 10])
    expect(await numbers(10, 100)).toEqual([])
    expect(await numbers(11, 100)).toEqual([])
  })

  const large = 'x'.repeat(900_000)

  it.each([
    ['text', { content: large }],
    ['raw lines', { content: '', raw: { large } }],
    ['metadata', { content: '', metadata: { large } }],
  ])('messages: a page of messages with large %s has few messages, but at least one', async (_what, message) => {
    await create(store, 'a')
    const { content, ...more } = message
    for (let turn = 0; turn < 10; turn++)
      await store.agents.save([{ agentId: 'a', messages: [newMessage(content, more), newMessage(content, more)] }])
    const seen: number[] = []
    for (
      let page = await store.agents.messages('a', 0, 1_000);
      page.length > 0;
      page = await store.agents.messages('a', seen.length, 1_000)
    ) {
      expect(page.length).toBeLessThan(6)
      seen.push(...page.map(({ sequenceNumber }) => sequenceNumber))
    }
    expect(seen).toEqual(Array.from({ length: 21 }, (_, index) => index + 1))
  })
}
