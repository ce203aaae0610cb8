import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { installationOf } from '../../support/ledger-file.ts'
import type { Json } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'

const server = useServer(['--reaper-minimum-age', '1ms'])
const status = async (id: string): Promise<string> => (await server.get(`/api/agents/${id}/status`)).status
const clean = (body: object): Promise<Json> => server.call('POST', '/api/cleanup', { body })

describe('POST /cleanup', () => {
  it('scope single: ends one agent, request or task and keeps the rows', async () => {
    const agent = await server.command(['sleep', '1000'])
    const request = await server.command(['sleep', '1000'], { requestId: 'r' })
    const task = await server.command(['sleep', '1000'], { taskId: 't' })
    const other = await server.command(['sleep', '1000'])
    expect((await clean({ scope: 'single', agentId: agent })).body).toMatchObject({ success: true, scope: { kind: 'agent', id: agent } })
    expect((await clean({ scope: 'single', requestId: 'r' })).body).toMatchObject({ success: true, scope: { kind: 'request', id: 'r' } })
    expect((await clean({ scope: 'single', taskId: 't', force: true })).body).toMatchObject({
      success: true,
      scope: { kind: 'task', id: 't' },
    })
    expect(await Promise.all([agent, request, task, other].map(status))).toEqual(['terminated', 'terminated', 'terminated', 'running'])
  })

  it('with a namespace it ends the agents of that namespace only; without one it ends all agents', async () => {
    const one = await server.command(['sleep', '1000'], { namespace: 'one', requestId: 'r' })
    const two = await server.command(['sleep', '1000'], { namespace: 'two' })
    const report = (await clean({ scope: 'all', namespace: 'one' })).body
    expect(report).toMatchObject({ success: true, scope: { kind: 'namespace', id: 'one' }, cleanedAgentsCount: 1, cleanedMessagesCount: 0 })
    expect(await Promise.all([one, two].map(status))).toEqual(['terminated', 'running'])
    expect((await clean({ scope: 'all' })).body).toMatchObject({ success: true, scope: { kind: 'host' }, cleanedAgentsCount: 1 })
    expect(await Promise.all([one, two].map(status))).toEqual(['terminated', 'terminated'])
    // The rows of the agents are kept, and their namespaces accept agents again.
    expect(await server.get('/api/agents')).toHaveLength(2)
    await server.command(['true'], { namespace: 'one' })
  })

  it('with a namespace in the header ends the agents of that namespace', async () => {
    const one = await server.command(['sleep', '1000'], { namespace: 'one' })
    const two = await server.command(['sleep', '1000'], { namespace: 'two' })
    await server.call('POST', '/api/cleanup', { body: { scope: 'all' }, headers: { 'x-ebb-namespace': 'two' } })
    expect(await Promise.all([one, two].map(status))).toEqual(['running', 'terminated'])
  })

  it('with scope "all" is refused when it names an agent, a request or a task', async () => {
    const agentId = await server.command(['sleep', '1000'], { requestId: 'r' })
    for (const [name, value] of Object.entries({ agentId, requestId: 'r', taskId: 't' })) {
      const { status, body } = await clean({ scope: 'all', [name]: value })
      expect([status, body.code, body.details.map(({ path }: Json) => path)]).toEqual([400, 'invalid_request', [name]])
    }
    expect(await server.get(`/api/agents/${agentId}/status`)).toMatchObject({ status: 'running' })
  })

  it('is refused when it names nothing, or something unknown', async () => {
    const id = await server.command(['sleep', '1000'])
    for (const body of [{}, { scope: 'some' }, { scope: 'single' }, { scope: 'single', agentId: 'x' }, { scope: 'all', force: 'yes' }])
      expect(await clean(body)).toMatchObject({ status: 400, body: { code: 'invalid_request', details: expect.any(Array) } })
    const agentId = '6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11'
    expect(await clean({ scope: 'single', agentId })).toMatchObject({ status: 404, body: { code: 'agent_not_found' } })
    expect(await clean({ scope: 'single', requestId: 'no' })).toMatchObject({ status: 404, body: { code: 'request_not_found' } })
    expect(await clean({ scope: 'single', taskId: 'no' })).toMatchObject({ status: 404 })
    expect(await status(id)).toBe('running')
  })
})

it('GET /cleanup/status: counts what exists, and is clean when nothing does', async () => {
  const empty = {
    isClean: true,
    agentCount: 0,
    messageCount: 0,
    runningProcesses: 0,
    activeSubscriptions: 0,
    resources: {},
    leaks: [],
    stuck: [],
    heldBack: [],
  }
  expect(await server.get('/api/cleanup/status')).toEqual(empty)
  const client = await server.socket()
  const id = await server.command(['sh', '-c', 'echo one; sleep 1000 & sleep 1000 & echo two; wait'], { namespace: 'busy' })
  client.socket.emit('subscribe', { agentId: id, since: 0 })
  await client.event('agent:message', ({ message }) => message.content === 'two')
  const busy = {
    isClean: false,
    agentCount: 1,
    messageCount: 3,
    runningProcesses: 3,
    activeSubscriptions: 1,
    resources: {
      log: { held: 2, closing: 0, stuck: 0 },
      'temp-folder': { held: 1, closing: 0, stuck: 0 },
      'process-tree': { held: 1, closing: 0, stuck: 0 },
    },
    leaks: [],
    stuck: [],
    heldBack: [],
  }
  expect(await server.get('/api/cleanup/status')).toEqual(busy)
  expect(await server.get('/api/cleanup/status?namespace=busy')).toEqual(busy)
  expect(await server.get('/api/test/cleanup-status?namespace=busy')).toEqual(busy)
  expect(await server.get('/api/cleanup/status?namespace=idle')).toEqual(empty)
  await server.post(`/api/agents/${id}/stop`)
  expect(await server.get('/api/cleanup/status')).toMatchObject({ isClean: false, agentCount: 1, runningProcesses: 0, resources: {} })
  client.socket.disconnect()
})

describe('the history of closes', () => {
  it('lists closes newest first with what they did, and shows one with its report', async () => {
    // The agent has started before it is stopped. A stop during the start may need a kill, which would appear in the history.
    const first = await server.command(['sh', '-c', 'echo up; exec sleep 1000'])
    await server.get(`/api/agents/${first}/messages?since=1&wait=15000`)
    const report = await server.post(`/api/agents/${first}/stop`)
    const second = await server.command(['sleep', '1000'])
    await server.call('DELETE', `/api/agents/${second}`)
    const [newest, older] = await server.get('/api/cleanup/history?limit=2')
    expect([newest.trigger, older.trigger]).toEqual(['deleted', 'terminated'])
    expect(older).toEqual({
      id: expect.any(String),
      state: 'done',
      trigger: 'terminated',
      scope: { kind: 'agent', id: first },
      startedAt: report.startedAt,
      duration: report.duration,
      success: true,
      released: 4,
      stuck: 0,
      errors: [],
    })
    expect(await server.get(`/api/cleanup/history/${older.id}`)).toEqual({ ...older, report })
    expect(await server.get('/api/cleanup/history?limit=1')).toEqual([newest])
  })

  it('is filtered over all its entries, not only the newest', async () => {
    const killed = await server.command(['sh', '-c', 'trap "" TERM; echo ready; while :; do sleep 1000; done'])
    await server.get(`/api/agents/${killed}/messages?since=1&wait=15000`)
    await server.post(`/api/agents/${killed}/stop`, { grace: 100 })
    for (let n = 0; n < 101; n++) await server.post('/api/cleanup', { scope: 'all', namespace: 'empty' })
    const found = (query: string): Promise<Json[]> => server.get(`/api/cleanup/history?${query}`)
    const agents = async (query: string): Promise<Json[]> => (await found(query)).map(({ scope }) => scope.id)
    expect(await agents('limit=1&outcome=escalated')).toEqual([killed])
    expect(await agents('limit=1&trigger=terminated&outcome=clean')).toEqual([killed])
    expect(await agents('limit=1&hadResources=true')).toEqual([killed])
    expect(await found('trigger=reaper')).toEqual([])
    expect(await found('outcome=not-clean&trigger=terminated')).toEqual([])
    expect(await found('outcome=running')).toEqual([])
    expect(await found('limit=3&trigger=request-finished')).toHaveLength(3)
    for (const bad of ['outcome=x', 'trigger=x', 'hadResources=x'])
      expect(await server.call('GET', `/api/cleanup/history?${bad}`)).toMatchObject({ status: 400, body: { code: 'invalid_request' } })
  })

  it('shows a close that is still running', async () => {
    const id = await server.command(['sh', '-c', 'trap "" TERM; echo ready; while :; do sleep 1000; done'], { requestId: 'slow' })
    await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    const { id: cleanup } = await server.post('/api/requests/slow/cleanup', { waitForCompletion: false })
    const running = await server.get(`/api/cleanup/history/${cleanup}`)
    expect(running).toMatchObject({ id: cleanup, state: 'running', trigger: 'request-finished', scope: { kind: 'request', id: 'slow' } })
    expect(running.report).toBeUndefined()
    for (const sort of ['', '&outcome=running', '&hadResources=true', '&trigger=request-finished'])
      expect((await server.get(`/api/cleanup/history?limit=1${sort}`))[0]).toMatchObject({ id: cleanup, state: 'running' })
    await server.post('/api/requests/slow/cleanup', { force: true })
    expect(await server.get(`/api/cleanup/history/${cleanup}`)).toMatchObject({ state: 'done', success: true })
  })

  it('refuses a malformed id, an unknown one and a bad limit', async () => {
    expect(await server.call('GET', '/api/cleanup/history/x')).toMatchObject({ status: 400, body: { code: 'invalid_id' } })
    const unknown = '6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11'
    expect(await server.call('GET', `/api/cleanup/history/${unknown}`)).toMatchObject({ status: 404, body: { code: 'report_not_found' } })
    for (const limit of ['0', '-1', 'x']) expect((await server.call('GET', `/api/cleanup/history?limit=${limit}`)).status).toBe(400)
  })
})

describe('the reaper', () => {
  it('finds nothing when there are no leftovers, and leaves running agents alone', async () => {
    const id = await server.command(['sleep', '1000'])
    for (const dryRun of [true, false])
      expect(await server.post('/api/reaper/run', { dryRun })).toEqual({ found: [], released: [], left: [] })
    expect(await server.call('POST', '/api/reaper/run')).toMatchObject({ status: 200 })
    expect(await status(id)).toBe('running')
  })

  it('finds a process with the environment tag and without a record, and ends it in the second pass', async () => {
    const { instanceId } = await server.get('/api/health')
    // The incarnation id of a dead supervisor: it has the boot and pid of the server and another start time.
    const dead = instanceId.replace(/\d+$/, '1')
    const lost = spawn('sleep', ['1000'], {
      env: { EBB_SCOPE: `${installationOf(server.home)}/${dead}/${randomUUID()}.1` },
      stdio: 'ignore',
    })
    const gone = once(lost, 'exit')
    try {
      expect(await server.get('/api/cleanup/status')).toMatchObject({ isClean: false, runningProcesses: 1, leaks: [expect.any(String)] })
      const dry = await server.post('/api/reaper/run', { dryRun: true })
      expect(dry).toMatchObject({ found: [{ kind: 'process-tree', why: 'unrecorded' }], released: [] })
      expect(dry.left).toEqual(dry.found)
      // The reaper releases a leak in the second pass that sees it. A dry run does not count as a pass.
      expect(await server.post('/api/reaper/run')).toMatchObject({ released: [], left: [{ kind: 'process-tree' }] })
      expect(await server.post('/api/reaper/run')).toMatchObject({ released: [{ kind: 'process-tree' }], left: [] })
      expect((await gone)[1]).toMatch(/^SIG/)
      expect((await server.get('/metrics')).match(/^ebb_orphans_found_total.*$/m)?.[0]).toContain('kind="process-tree"')
    } finally {
      lost.kill('SIGKILL')
    }
  })

  it('refuses a bad body', async () => {
    expect(await server.call('POST', '/api/reaper/run', { body: { dryRun: 'yes' } })).toMatchObject({ status: 400 })
  })
})
