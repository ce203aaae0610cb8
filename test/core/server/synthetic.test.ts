import { describe, expect, it } from 'vitest'
import type { Json } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'

const server = useServer()
const play = (body: object): Promise<Json> => server.call('POST', '/api/test/agents/synthetic', { body })
const ended = (id: string): Promise<Json> => server.get(`/api/agents/${id}/status?wait=20000`)

/** The schedule starts before the launch is answered. The delays let a client subscribe before the events that only subscribers get. */
const schedule = [
  { delay: 0, type: 'status', data: { status: 'initializing' } },
  { delay: 1_500, type: 'status', data: { status: 'running' } },
  { delay: 1_520, type: 'message', data: { content: 'hello' } },
  { delay: 1_520, type: 'message', data: { content: 'a call', type: 'tool', role: 'assistant', metadata: { tool: 'Bash' } } },
  { delay: 1_540, type: 'complete', data: { success: true } },
]

describe.each([false, true])('a synthetic agent (a real process: %s)', (process) => {
  it('plays every type of event at its time, in order', async () => {
    const client = await server.socket()
    const { status, body } = await play({ prompt: 'p', schedule, process })
    expect(status).toBe(201)
    expect(body).toEqual({ id: expect.any(String), agentId: body.id, status: 'running', createdAt: expect.any(String) })
    client.socket.emit('subscribe', { agentId: body.id, since: 0 })
    await client.event('agent:terminated', (event) => event.agentId === body.id)
    expect(client.of('agent:message').map(({ message }: Json) => message)).toMatchObject([
      { type: 'user', content: 'p' },
      { type: 'assistant', content: 'hello' },
      { type: 'tool', role: 'assistant', content: 'a call', metadata: { tool: 'Bash' } },
    ])
    const statuses = client.of('agent:updated').map((event: Json) => event.status)
    expect(statuses).toEqual(['initializing', 'running', 'stopping', 'completed'])
    expect(client.of('agent:complete')).toMatchObject([{ result: { status: 'success', messageCount: 3 } }])
    expect(await server.get(`/api/agents/${body.id}`)).toMatchObject({ type: 'synthetic', status: 'completed' })
    expect(await server.get(`/api/agents/${body.id}/resources`)).toHaveLength(process ? 4 : 0)
  })

  it('fails with the error of its schedule', async () => {
    const { body } = await play({
      prompt: '',
      process,
      schedule: [{ delay: 10, type: 'error', data: { message: 'no luck', name: 'bad_day' } }],
    })
    expect(await ended(body.id)).toMatchObject({ status: 'failed' })
    expect(await server.get(`/api/agents/${body.id}`)).toMatchObject({ error: { name: 'bad_day', message: 'no luck' } })
    expect((await server.get(`/api/agents/${body.id}/messages`)).at(-1)).toMatchObject({ type: 'error', content: 'no luck' })
  })

  it('fails when it completes without success', async () => {
    const { body } = await play({ prompt: '', process, schedule: [{ delay: 0, type: 'complete', data: { success: false } }] })
    expect(await ended(body.id)).toMatchObject({ status: 'failed' })
    expect((await server.get(`/api/agents/${body.id}`)).error).toMatchObject({ name: expect.any(String), message: expect.any(String) })
  })

  it('runs until it is stopped when its schedule has no end, and plays nothing afterwards', async () => {
    const { body } = await play({
      prompt: '',
      process,
      schedule: [
        { delay: 0, type: 'message', data: { content: 'x' } },
        { delay: 60_000, type: 'complete' },
      ],
    })
    await server.get(`/api/agents/${body.id}/messages?since=1&wait=15000`)
    const seen = await server.get(`/api/agents/${body.id}/process`)
    expect([seen.process_alive, seen.processes.length]).toEqual(process ? [true, 1] : [false, 0])
    expect(await server.post(`/api/agents/${body.id}/stop`)).toMatchObject({ success: true })
    expect(await server.get(`/api/agents/${body.id}`)).toMatchObject({ status: 'terminated', session: { messageCount: 2 } })
  })

  it('plays 10,000 events without a gap', async () => {
    const events = Array.from({ length: 9_999 }, (_, n) => ({
      delay: Math.floor(n / 20),
      type: 'message',
      data: { content: `event ${n}` },
    }))
    const { status, body } = await play({ prompt: '', process, schedule: [...events, { delay: 600, type: 'complete' }] })
    expect(status).toBe(201)
    expect(await ended(body.id)).toMatchObject({ status: 'completed' })
    const messages: Json[] = await server.get(`/api/agents/${body.id}/messages?since=1`)
    expect(messages.map((one) => one.content)).toEqual(events.map(({ data }) => data.content))
    expect(messages.map((one) => one.sequenceNumber)).toEqual(events.map((_, n) => n + 2))
  })
})

it('a synthetic agent: its events are sent in the order of the schedule, also when they are due at the same time', async () => {
  const client = await server.socket()
  const say = (content: string): object => ({ delay: 1_500, type: 'message', data: { content } })
  const is = (status: string): object => ({ delay: 1_500, type: 'status', data: { status } })
  const events = [say('one'), is('initializing'), say('two'), is('running'), say('three'), { delay: 1_500, type: 'complete' }]
  const { body } = await play({ prompt: '', schedule: events })
  client.socket.emit('subscribe', { agentId: body.id, since: 1 })
  await client.event('agent:terminated', (event) => event.agentId === body.id)
  const received = client.events.flatMap(({ name, data }) =>
    name === 'agent:message' ? data.message.content : name === 'agent:status' ? data.status : [],
  )
  expect(received).toEqual(['one', 'initializing', 'two', 'running', 'three', 'stopping', 'completed'])
})

it('POST /agents: launches a synthetic agent with a schedule', async () => {
  const id = await server.launch({ type: 'synthetic', prompt: 'p', namespace: 'n', configuration: { schedule } })
  expect(await ended(id)).toMatchObject({ status: 'completed' })
  expect(await server.get(`/api/agents/${id}`)).toMatchObject({ namespace: 'n', session: { messageCount: 3 } })
})

it('a bad schedule is refused, and the error names the place', async () => {
  const event = { delay: 0, type: 'message', data: { content: 'x' } }
  const cases: readonly (readonly [object, string])[] = [
    [{ schedule: [] }, 'prompt'],
    [{ prompt: '' }, 'schedule'],
    [{ prompt: '', schedule: {} }, 'schedule'],
    [{ prompt: '', schedule: [{ ...event, delay: -1 }] }, 'schedule.0.delay'],
    [{ prompt: '', schedule: [event, { ...event, type: 'boom' }] }, 'schedule.1.type'],
    [{ prompt: '', schedule: [{ ...event, data: 'x' }] }, 'schedule.0.data'],
    [{ prompt: '', schedule: Array.from({ length: 10_001 }, () => event) }, 'schedule'],
    [{ prompt: '', schedule: [], process: 'yes' }, 'process'],
  ]
  for (const [body, path] of cases) {
    const answer = await play(body)
    expect([answer.status, answer.body.code, answer.body.details[0].path]).toEqual([400, 'invalid_request', path])
  }
})

describe('the data of a scheduled event', () => {
  const good = { delay: 0, type: 'message', data: { content: 'x' } }
  const bad: readonly (readonly [string, unknown, string])[] = [
    ['message', undefined, 'data'],
    ['message', {}, 'data.content'],
    ['message', { content: 7 }, 'data.content'],
    ['message', { content: 'x', type: 'shout' }, 'data.type'],
    ['message', { content: 'x', role: 7 }, 'data.role'],
    ['message', { content: 'x', metadata: 'x' }, 'data.metadata'],
    ['status', undefined, 'data'],
    ['status', {}, 'data.status'],
    ['status', { status: 'asleep' }, 'data.status'],
    ['status', { status: 'stopping' }, 'data.status'],
    ['status', { status: 'terminated' }, 'data.status'],
    ['status', { status: 'stuck' }, 'data.status'],
    ['error', undefined, 'data'],
    ['error', {}, 'data.message'],
    ['error', { message: 'x', name: 7 }, 'data.name'],
    ['complete', { success: 'no' }, 'data.success'],
  ]

  it.each(bad)('is refused when it is invalid: %s %j', async (type, data, path) => {
    const events = [good, { delay: 0, type, data }]
    const refusalOf = async (answer: Promise<Json>): Promise<unknown> => {
      const { status, body } = await answer
      return [status, body.code, body.details[0].path]
    }
    expect(await refusalOf(play({ prompt: '', schedule: events }))).toEqual([400, 'invalid_request', `schedule.1.${path}`])
    const launch = { type: 'synthetic', prompt: '', configuration: { schedule: events } }
    expect(await refusalOf(server.call('POST', '/api/agents', { body: launch }))).toEqual([
      400,
      'invalid_request',
      `configuration.schedule.1.${path}`,
    ])
    expect(await server.get('/api/agents')).toEqual([])
  })

  it('with a status that cannot be played is refused with the statuses that can', async () => {
    const { body } = await play({ prompt: '', schedule: [{ delay: 0, type: 'status', data: { status: 'stuck' } }] })
    expect(body.message).toContain('initializing, running, completed or failed')
  })

  it('may have further fields, and may be absent for `complete`', async () => {
    const more = { note: [1, { deep: true }] }
    const events = [
      { ...good, data: { ...good.data, ...more } },
      { delay: 0, type: 'status', data: { status: 'running', ...more } },
      { delay: 0, type: 'complete' },
    ]
    const { status, body } = await play({ prompt: '', schedule: events })
    expect(status).toBe(201)
    expect(await ended(body.id)).toMatchObject({ status: 'completed' })
    expect((await play({ prompt: '', schedule: [{ ...good, data: { ...good.data, deep: nested(200) } }] })).status).toBe(400)
  })

  it.each(['completed', 'failed'])('with the status %s ends the agent', async (status) => {
    const { body } = await play({ prompt: '', schedule: [{ delay: 0, type: 'status', data: { status } }] })
    expect(await ended(body.id)).toMatchObject({ status })
  })
})

const nested = (levels: number): object => (levels === 0 ? {} : { in: nested(levels - 1) })
