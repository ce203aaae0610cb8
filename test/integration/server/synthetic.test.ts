import { describe, expect, it } from 'vitest'
import type { Json } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'

const server = useServer()
const play = (body: object): Promise<Json> => server.call('POST', '/api/test/agents/synthetic', { body })
const ended = (id: string): Promise<Json> => server.get(`/api/agents/${id}/status?wait=20000`)

const schedule = [
  { delay: 0, type: 'status', data: { status: 'initializing' } },
  { delay: 40, type: 'status', data: { status: 'running' } },
  { delay: 60, type: 'message', data: { content: 'hello' } },
  { delay: 60, type: 'message', data: { content: 'a call', type: 'tool', role: 'assistant', metadata: { tool: 'Bash' } } },
  { delay: 80, type: 'complete', data: { success: true } },
]

describe.each([false, true])('a synthetic agent (a real process: %s)', (process) => {
  it('plays every kind of event at its time, in order', async () => {
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
    expect(await server.get(`/api/agents/${body.id}/resources`)).toHaveLength(process ? 3 : 0)
  })

  it('fails with the error that it plays', async () => {
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

  it('goes on until it is stopped when its schedule has no end, and plays nothing afterwards', async () => {
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

it('a schedule may be a launch of its own, through POST /agents', async () => {
  const id = await server.launch({ type: 'synthetic', prompt: 'p', namespace: 'n', configuration: { schedule } })
  expect(await ended(id)).toMatchObject({ status: 'completed' })
  expect(await server.get(`/api/agents/${id}`)).toMatchObject({ namespace: 'n', session: { messageCount: 3 } })
})

it('a bad schedule is refused by its place', async () => {
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
