import { describe, expect, it } from 'vitest'
import { temporaryHome } from '../../support/home.ts'
import { type Json, startServer } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'

const server = useServer()
const sleeper = { type: 'command', prompt: '', configuration: { command: ['sleep', '1000'] } }
const launch = (more: object): Promise<Json> => server.call('POST', '/api/agents', { body: { ...sleeper, ...more } })
const status = async (id: string): Promise<string> => (await server.get(`/api/agents/${id}/status`)).status

describe('a request', () => {
  it('is opened, accepts agents, and shows them with their resources', async () => {
    const made = await server.call('POST', '/api/requests', { body: { id: 'r.1:a_b-c' } })
    expect(made.status).toBe(201)
    expect(made.body).toEqual({ id: 'r.1:a_b-c', namespace: 'default', state: 'open', agents: [], resources: [] })
    const id = await server.command(['sleep', '1000'], { requestId: 'r.1:a_b-c' })
    const shown = await server.get('/api/requests/r.1:a_b-c')
    expect(shown).toMatchObject({ state: 'open', agents: [{ id, requestId: 'r.1:a_b-c', status: 'running' }] })
    expect(shown.resources.map((one: Json) => [one.kind, one.state])).toEqual([
      ['log', 'held'],
      ['log', 'held'],
      ['temp-folder', 'held'],
      ['process-tree', 'held'],
    ])
  })

  it('is opened by its first agent, once, also by concurrent launches', async () => {
    const answers = await Promise.all(Array.from({ length: 6 }, () => launch({ requestId: 'born' })))
    expect(answers.map((one) => one.status)).toEqual(Array.from({ length: 6 }, () => 201))
    const shown = await server.get('/api/requests/born')
    expect(shown.agents).toHaveLength(6)
    expect(await server.post('/api/requests/born/cleanup')).toMatchObject({ success: true, cleanedAgentsCount: 6 })
  })

  it('is closed by a cleanup, which answers with the report, and then accepts no agents', async () => {
    const id = await server.command(['sleep', '1000'], { requestId: 'over' })
    const report = await server.post('/api/requests/over/cleanup')
    expect(report).toMatchObject({
      success: true,
      trigger: 'request-finished',
      scope: { kind: 'request', id: 'over' },
      cleanedAgentsCount: 1,
      cleanedMessagesCount: 0,
    })
    expect(await status(id)).toBe('terminated')
    expect(await server.get('/api/requests/over')).toMatchObject({ state: 'closed', agents: [{ id }] })
    expect(await launch({ requestId: 'over' })).toMatchObject({ status: 409, body: { code: 'scope_closed' } })
    expect(await server.call('POST', '/api/requests', { body: { id: 'over' } })).toMatchObject({ status: 409 })
    expect(await server.get('/api/agents?status=running')).toEqual([])
    // A repeated cleanup of a closed request succeeds.
    const again = { success: true, trigger: 'request-finished', scope: { kind: 'request', id: 'over' }, resources: [] }
    expect(await server.post('/api/requests/over/cleanup')).toMatchObject(again)
    expect(await server.post('/api/cleanup', { scope: 'single', requestId: 'over' })).toMatchObject(again)
  })

  it('is cleaned up in the background with waitForCompletion false, and the history has the result', async () => {
    const client = await server.socket()
    await server.command(['sleep', '1000'], { requestId: 'later' })
    const answer = await server.call('POST', '/api/requests/later/cleanup', { body: { waitForCompletion: false } })
    expect(answer).toMatchObject({ status: 202, body: { id: expect.any(String) } })
    await client.event('cleanup:report', ({ report }) => report.scope.id === 'later')
    expect(await server.get(`/api/cleanup/history/${answer.body.id}`)).toMatchObject({
      id: answer.body.id,
      state: 'done',
      success: true,
      trigger: 'request-finished',
      report: { scope: { kind: 'request', id: 'later' }, cleanedAgentsCount: 1 },
    })
    expect(await server.get('/api/requests/later')).toMatchObject({ state: 'closed' })
    const again = await server.call('POST', '/api/requests/later/cleanup', { body: { waitForCompletion: false } })
    expect(again).toMatchObject({ status: 202, body: { id: expect.not.stringMatching(answer.body.id) } })
    await client.event('cleanup:report', ({ id }) => id === again.body.id)
    expect(await server.get(`/api/cleanup/history/${again.body.id}`)).toMatchObject({
      state: 'done',
      success: true,
      scope: { kind: 'request', id: 'later' },
    })
  })

  it('that a reset is closing is in the history under the id that its own cleanup answered', async () => {
    const client = await server.socket()
    const id = await server.command(['sh', '-c', 'trap "" TERM; echo ready; while :; do sleep 1000; done'], { requestId: 'part' })
    await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    await server.post('/api/test/reset-environment', { waitForCompletion: false, timeout: 30_000 })
    const { status, body } = await server.call('POST', '/api/requests/part/cleanup', { body: { waitForCompletion: false } })
    expect(status).toBe(202)
    expect(await server.get(`/api/cleanup/history/${body.id}`)).toMatchObject({ id: body.id, state: 'running' })
    expect(await server.post('/api/test/reset-environment', { force: true })).toMatchObject({ success: true, cleanedAgentsCount: 1 })
    await client.event('cleanup:report', (event) => event.id === body.id)
    expect(await server.get(`/api/cleanup/history/${body.id}`)).toMatchObject({
      state: 'done',
      success: true,
      report: { scope: { kind: 'request', id: 'part' }, cleanedAgentsCount: 1 },
    })
  })

  it('is closed with force without waiting for agents that ignore signals', async () => {
    const id = await server.command(['sh', '-c', 'trap "" TERM; echo ready; while :; do sleep 1000; done'], { requestId: 'hurry' })
    await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    const report = await server.post('/api/requests/hurry/cleanup', { force: true })
    expect(report).toMatchObject({ success: true })
    const { steps } = report.resources.find(({ kind }: Json) => kind === 'process-tree')
    expect(steps.map(({ step }: Json) => step)).toEqual(['kill'])
  })

  it('is closed after its timeout', async () => {
    const client = await server.socket()
    await server.post('/api/requests', { id: 'short', timeout: 3_000 })
    const id = await server.command(['sleep', '1000'], { requestId: 'short' })
    await client.event('agent:terminated', (event) => event.agentId === id)
    await client.event('cleanup:report', ({ report }) => report.scope.id === 'short')
    expect(await server.get('/api/requests/short')).toMatchObject({ state: 'closed', agents: [{ status: 'terminated' }] })
  })

  it('with the same id in another namespace is another request', async () => {
    const one = await server.command(['sleep', '1000'], { requestId: 'same', namespace: 'one' })
    const two = await server.command(['sleep', '1000'], { requestId: 'same', namespace: 'two' })
    expect(await server.call('GET', '/api/requests/same')).toMatchObject({ status: 404, body: { code: 'request_not_found' } })
    expect((await server.get('/api/requests/same?namespace=one')).agents).toMatchObject([{ id: one }])
    const headers = { 'x-ebb-namespace': 'two' }
    expect((await server.call('POST', '/api/requests/same/cleanup', { headers })).body).toMatchObject({
      success: true,
      cleanedAgentsCount: 1,
    })
    expect([await status(one), await status(two)]).toEqual(['running', 'terminated'])
  })

  it('is refused with a bad body or a bad id', async () => {
    for (const body of [{}, { id: 7 }, { id: '' }, { id: 'a b' }, { id: '../x' }, { id: 'a', timeout: 0 }, { id: 'a', timeout: 'x' }])
      expect(await server.call('POST', '/api/requests', { body })).toMatchObject({ status: 400, body: { code: 'invalid_request' } })
    for (const id of ['%20', '..%2Fx', 'a%2Fb', 'x'.repeat(101)]) {
      expect(await server.call('GET', `/api/requests/${id}`)).toMatchObject({ status: 400, body: { code: 'invalid_id' } })
      expect(await server.call('POST', `/api/requests/${id}/cleanup`)).toMatchObject({ status: 400, body: { code: 'invalid_id' } })
    }
    expect(await server.call('POST', '/api/requests/nobody/cleanup')).toMatchObject({ status: 404, body: { code: 'request_not_found' } })
    expect(await server.call('POST', '/api/requests/x/cleanup', { body: { force: 1 } })).toMatchObject({ status: 400 })
  })
})

describe('the owner of an agent', () => {
  it('is its task, else its request, else its namespace', async () => {
    const ofTask = await server.command(['sleep', '1000'], { taskId: 'task', requestId: 'request' })
    const ofRequest = await server.command(['sleep', '1000'], { requestId: 'request' })
    const ofNamespace = await server.command(['sleep', '1000'])
    await server.post('/api/requests/request/cleanup')
    expect(await Promise.all([ofTask, ofRequest, ofNamespace].map(status))).toEqual(['running', 'terminated', 'running'])
    expect(await server.post('/api/cleanup', { scope: 'single', taskId: 'task' })).toMatchObject({ scope: { kind: 'task', id: 'task' } })
    expect(await Promise.all([ofTask, ofNamespace].map(status))).toEqual(['terminated', 'running'])
    // The request `request` is closed, but an agent with a task is not owned by it: the id of the request is only a label.
    expect((await launch({ taskId: 'another', requestId: 'request' })).status).toBe(201)
    expect(await launch({ taskId: 'task' })).toMatchObject({ status: 409, body: { code: 'scope_closed' } })
  })
})

it('POST /requests: an open id is 409 request_exists, a closed id is 409 scope_closed', async () => {
  const open = (): Promise<Json> => server.call('POST', '/api/requests', { body: { id: 'twice' } })
  const answers: Json[] = await Promise.all([open(), open()])
  expect(answers.map(({ status, body }) => [status, body.code]).toSorted()).toEqual([
    [201, undefined],
    [409, 'request_exists'],
  ])
  expect(await open()).toMatchObject({ status: 409, body: { code: 'request_exists', message: expect.stringContaining('is open already') } })
  await server.post('/api/requests/twice/cleanup')
  expect(await open()).toMatchObject({ status: 409, body: { code: 'scope_closed', message: expect.stringContaining('is closed') } })
})

it('a request stays closed after a restart of the server; an open request is closed with the server', async () => {
  const home = temporaryHome()
  {
    await using first = await startServer([], { home })
    const id = await first.command(['true'], { requestId: 'closed' })
    await first.get(`/api/agents/${id}/status?wait=15000`)
    await first.post('/api/requests/closed/cleanup')
    await first.command(['sleep', '1000'], { requestId: 'open' })
  }
  await using second = await startServer([], { home })
  for (const requestId of ['closed', 'open']) {
    expect(await second.get(`/api/requests/${requestId}`)).toMatchObject({ state: 'closed', agents: [{ requestId }] })
    expect(await second.call('POST', '/api/agents', { body: { ...sleeper, requestId } })).toMatchObject({
      status: 409,
      body: { code: 'scope_closed' },
    })
  }
  expect((await second.get('/api/agents')).map((one: Json) => one.status)).toEqual(['terminated', 'completed'])
  // A reset deletes the requests, and their ids are free again.
  expect(await second.post('/api/test/reset-environment')).toMatchObject({ success: true, cleanedAgentsCount: 2 })
  expect((await second.call('POST', '/api/agents', { body: { ...sleeper, requestId: 'closed' } })).status).toBe(201)
})
