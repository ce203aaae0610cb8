import { describe, expect, it } from 'vitest'
import { type Json, startServer } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'
import { seen } from '../../support/world.ts'

const server = useServer()
const uuid4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const ended = (id: string): Promise<Json> => server.get(`/api/agents/${id}/status?wait=15000`)

describe('POST /agents', () => {
  it('answers with `id` and `agentId`, the status and the time', async () => {
    const { status, body } = await server.call('POST', '/api/agents', {
      body: { type: 'command', prompt: 'x', configuration: { command: ['sleep', '1000'] } },
    })
    expect(status).toBe(201)
    expect(body).toEqual({
      id: expect.stringMatching(uuid4),
      agentId: body.id,
      status: 'running',
      createdAt: expect.stringMatching(instant),
    })
  })

  it('type command: passes the prompt on standard input and appends customArgs', async () => {
    const id = await server.launch({
      type: 'command',
      prompt: 'one\ntwo',
      configuration: { command: ['sh', '-c', 'echo "$@"; cat; echo oops >&2', 'sh', 'a'], customArgs: ['b c', 'd'] },
    })
    expect(await ended(id)).toEqual({ agentId: id, status: 'completed' })
    const messages = await server.get(`/api/agents/${id}/messages`)
    const out = messages.filter((one: Json) => one.type === 'response').map((one: Json) => one.content)
    expect(out).toEqual(['a b c d', 'one', 'two'])
    expect(messages[0]).toMatchObject({ type: 'user', content: 'one\ntwo', sequenceNumber: 1 })
    expect(messages.filter((one: Json) => one.type === 'error')).toMatchObject([{ content: 'oops', metadata: { stream: 'stderr' } }])
    expect(messages.map((one: Json) => one.sequenceNumber)).toEqual([1, 2, 3, 4, 5])
    for (const one of messages)
      expect(one).toMatchObject({ id: expect.any(String), agentId: id, createdAt: expect.stringMatching(instant) })
    expect(new Set(messages.map((one: Json) => one.id)).size).toBe(5)
  })

  it('type synthetic: without a schedule it plays a short conversation', async () => {
    const id = await server.launch({ type: 'synthetic', prompt: 'hello' })
    expect(await ended(id)).toMatchObject({ status: 'completed' })
    const messages = await server.get(`/api/agents/${id}/messages`)
    expect(messages.length).toBeGreaterThan(1)
    expect(messages[1]).toMatchObject({ type: 'assistant', content: expect.stringContaining('hello') })
  })

  it('stores names, labels and metadata for later answers, and nothing else of the configuration', async () => {
    const parentAgentId = await server.command(['sleep', '1000'])
    const id = await server.launch({
      type: 'command',
      prompt: 'p',
      namespace: 'other',
      requestId: 'r-1',
      taskId: 't-1',
      parentAgentId,
      configuration: {
        command: ['true'],
        workingDirectory: '/tmp',
        conversationName: 'a talk',
        metadata: { deep: { er: [1, null] } },
        instructions: 'be kind',
        env: { A: 'b' },
      },
    })
    await ended(id)
    expect(await server.get(`/api/agents/${id}`)).toEqual({
      id,
      type: 'command',
      status: 'completed',
      placement: 'process',
      namespace: 'other',
      requestId: 'r-1',
      taskId: 't-1',
      parentAgentId,
      session: {
        id: expect.any(String),
        prompt: 'p',
        messageCount: 1,
        configuration: { workingDirectory: '/tmp', conversationName: 'a talk', metadata: { deep: { er: [1, null] } } },
      },
      createdAt: expect.stringMatching(instant),
      startedAt: expect.stringMatching(instant),
      completedAt: expect.stringMatching(instant),
      exitCode: 0,
    })
  })
})

describe('GET /agents', () => {
  it('is newest first, and pages by limit and cursor without a gap or a repeat', async () => {
    const ids: string[] = []
    for (let n = 0; n < 5; n++) ids.push(await server.launch({ type: 'synthetic', prompt: String(n) }))
    const newest = ids.toReversed()
    expect((await server.get('/api/agents')).map((one: Json) => one.id)).toEqual(newest)
    const seenIds: string[] = []
    let cursor: string | null = ''
    let pages = 0
    while (cursor !== null) {
      const page: Json = await server.call('GET', `/api/agents?limit=2&cursor=${cursor}`)
      seenIds.push(...page.body.map((one: Json) => one.id))
      cursor = page.headers.get('x-next-cursor')
      pages += 1
    }
    expect(seenIds).toEqual(newest)
    expect(pages).toBe(3)
  })

  it('filters by namespace, by status, or by both', async () => {
    const one = await server.command(['sleep', '1000'], { namespace: 'one' })
    const two = await server.command(['sleep', '1000'], { namespace: 'two' })
    const over = await server.command(['true'], { namespace: 'two' })
    await ended(over)
    const ids = async (query: string): Promise<string[]> => (await server.get(`/api/agents${query}`)).map((agent: Json) => agent.id)
    expect(await ids('?namespace=one')).toEqual([one])
    expect(await ids('?status=running')).toEqual([two, one])
    expect(await ids('?status=completed')).toEqual([over])
    expect(await ids('?status=completed,running&namespace=two')).toEqual([over, two])
    expect(await ids('/active')).toEqual([two, one])
    expect(await ids('/active?namespace=two')).toEqual([two])
    expect(await ids('?namespace=nobody')).toEqual([])
  })

  it('refuses a bad query, and the error names the place', async () => {
    const queries = ['limit=0', 'limit=-1', 'limit=two', 'limit=1.5', 'limit=1e9', 'cursor=x', 'cursor=-1', 'status=lost', 'status=']
    queries.push('namespace=a%2Fb', 'namespace=', 'limit=1&limit=2', 'limit=1e1', 'limit=0x1', 'limit=%201', 'limit=%2B1', 'limit=1.0')
    for (const query of queries) {
      const { status, body } = await server.call('GET', `/api/agents?${query}`)
      expect([query, status, body.code]).toEqual([query, 400, 'invalid_request'])
      expect(body.details[0].path.split('.')[0]).toBe(query.split('=')[0])
    }
  })
})

it('an agent id: upper case and lower case are the same', async () => {
  const id = await server.command(['sleep', '1000'])
  const capitals = id.toUpperCase()
  expect(await server.get(`/api/agents/${capitals}`)).toMatchObject({ id, status: 'running' })
  expect(await server.get(`/api/agents/${capitals}/status`)).toEqual({ agentId: id, status: 'running' })
  const client = await server.socket()
  client.socket.emit('subscribe', { agentId: capitals, since: 0 })
  expect(await client.event('agent:message')).toMatchObject({ agentId: id })
  client.socket.emit('unsubscribe', { agentId: capitals })
  expect(await client.event('unsubscribed')).toMatchObject({ agentId: id })
  const child = await server.command(['sleep', '1000'], { parentAgentId: capitals })
  expect(await server.get(`/api/agents/${child}`)).toMatchObject({ parentAgentId: id })
  expect(await server.post('/api/cleanup', { scope: 'single', agentId: capitals })).toMatchObject({ success: true, scope: { id } })
  expect((await server.call('DELETE', `/api/agents/${capitals}`)).status).toBe(204)
})

describe('the status of an agent', () => {
  it('with ?wait= is answered when the agent ends, and not before', async () => {
    const id = await server.command(['sh', '-c', 'read line; exit 0'], { prompt: '' })
    expect(await ended(id)).toEqual({ agentId: id, status: 'completed' })
    const busy = await server.command(['sleep', '1000'])
    expect(await server.get(`/api/agents/${busy}/status?wait=30`)).toEqual({ agentId: busy, status: 'running' })
    const waiting = ended(busy)
    await server.post(`/api/agents/${busy}/stop`)
    expect(await waiting).toEqual({ agentId: busy, status: 'terminated' })
  })

  it('with ?wait= is answered with 404 when the agent is deleted meanwhile', async () => {
    const id = await server.command(['sleep', '1000'])
    const waiting = server.call('GET', `/api/agents/${id}/status?wait=15000`)
    await server.call('DELETE', `/api/agents/${id}`)
    expect(await waiting).toMatchObject({ status: 404, body: { code: 'agent_not_found' } })
  })
})

describe('the processes of an agent', () => {
  it('are observed now, each with its parent, command, start and memory', async () => {
    const id = await server.command(['sh', '-c', 'sleep 1000 & wait'])
    const all: Json = await poll(async () => {
      const now = await server.get(`/api/agents/${id}/process`)
      return now.processes.some((one: Json) => one.command === 'sleep') ? now : undefined
    })
    expect(all).toMatchObject({ agent_id: id, process_alive: true, exit_code: null, containment: expect.any(String) })
    expect(all.uptime).toBeGreaterThan(0)
    expect(all.uptime).toBeLessThan(60)
    const sleep = all.processes.find((one: Json) => one.command === 'sleep')
    expect(seen(sleep.pid)).toMatchObject({ ppid: sleep.ppid, command: 'sleep' })
    expect(sleep).toMatchObject({ startedAt: expect.stringMatching(instant), rssBytes: expect.any(Number) })
    expect(Math.abs(Date.parse(sleep.startedAt) - Date.now())).toBeLessThan(60_000)
    expect(all.processes.map((one: Json) => one.pid)).toContain(sleep.ppid)
  })

  it('are named by their program for Node, not by its main thread', async () => {
    const id = await server.command([process.execPath, '-e', 'console.log("ready"); setInterval(() => {}, 1000)'])
    await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    expect(await server.get(`/api/agents/${id}/process`)).toMatchObject({ processes: [{ command: 'node' }] })
  })

  it('are none after its end, and the exit code is known', async () => {
    const id = await server.command(['sh', '-c', 'exit 7'])
    await ended(id)
    expect(await server.get(`/api/agents/${id}/process`)).toMatchObject({ process_alive: false, exit_code: 7, processes: [] })
  })
})

describe('the messages of an agent', () => {
  it('are limited by since and limit', async () => {
    const id = await server.command(['sh', '-c', 'seq 1 3000'])
    await ended(id)
    const numbers = async (query: string): Promise<number[]> =>
      (await server.get(`/api/agents/${id}/messages${query}`)).map((one: Json) => one.sequenceNumber)
    expect(await numbers('')).toEqual(Array.from({ length: 3001 }, (_, index) => index + 1))
    expect(await numbers('?since=2999')).toEqual([3000, 3001])
    expect(await numbers('?since=10&limit=2')).toEqual([11, 12])
    expect(await numbers('?limit=2000')).toHaveLength(2000)
    expect(await numbers('?since=3001')).toEqual([])
    expect(await numbers('?since=99999')).toEqual([])
    // An empty parameter counts as absent.
    expect(await numbers('?since=2999&limit=&wait=')).toEqual([3000, 3001])
    expect(await numbers('?since=&limit=2')).toEqual([1, 2])
  })

  it('with ?wait= are answered at the next message or at the end', async () => {
    const id = await server.command(['sh', '-c', 'sleep 0.2; echo late; sleep 1000'])
    expect(await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)).toMatchObject([{ content: 'late', sequenceNumber: 2 }])
    const waiting = server.get(`/api/agents/${id}/messages?since=2&wait=15000`)
    await server.post(`/api/agents/${id}/stop`)
    expect(await waiting).toEqual([])
  })

  it('refuse a bad query', async () => {
    const id = await server.launch({ type: 'synthetic', prompt: '' })
    for (const query of [
      'since=-1',
      'since=x',
      'since=1e1',
      'since=99999999999999999999',
      'wait=0x1',
      'limit=0',
      'wait=-1',
      'wait=61000',
    ]) {
      const { status, body } = await server.call('GET', `/api/agents/${id}/messages?${query}`)
      expect([query, status, body.code]).toEqual([query, 400, 'invalid_request'])
    }
  })
})

it('the resources of an agent: logs, temp folder and process tree are held, then released with a proof', async () => {
  const id = await server.command(['sleep', '1000'])
  const held = await server.get(`/api/agents/${id}/resources`)
  expect(held.map((one: Json) => [one.kind, one.state])).toEqual([
    ['log', 'held'],
    ['log', 'held'],
    ['temp-folder', 'held'],
    ['process-tree', 'held'],
  ])
  const [first, second, third, tree] = held
  expect(tree.dependsOn).toEqual([first.id, second.id, third.id])
  expect(tree).toMatchObject({
    name: expect.any(String),
    intendedAt: expect.stringMatching(instant),
    heldAt: expect.stringMatching(instant),
  })
  await server.post(`/api/agents/${id}/stop`)
  for (const one of await server.get(`/api/agents/${id}/resources`))
    expect(one).toMatchObject({
      state: 'released',
      attempts: 1,
      releasedAt: expect.stringMatching(instant),
      proof: { method: expect.any(String), strength: expect.stringMatching(/kernel|api|scan/), at: expect.stringMatching(instant) },
    })
})

it('the environment of an agent: that of the server without its settings, and its own variables', async () => {
  const env = { EBB_TOKEN: 'a-secret-token', EBB_MAX_AGENTS: '7', OURS: 'kept', REPLACED: 'old' }
  await using own = await startServer(['--log-level', 'error'], { env })
  const headers = { authorization: 'Bearer a-secret-token' }
  const body = {
    type: 'command',
    prompt: '',
    configuration: { command: ['env'], env: { REPLACED: 'new', ADDED: 'a=b', EBB_SCOPE: 'mine' } },
  }
  const { id } = (await own.call('POST', '/api/agents', { body, headers })).body
  await own.call('GET', `/api/agents/${id}/status?wait=15000`, { headers })
  const lines = (await own.call('GET', `/api/agents/${id}/messages?since=1`, { headers })).body.map((one: Json) => one.content)
  expect(lines).toEqual(expect.arrayContaining(['OURS=kept', 'REPLACED=new', 'ADDED=a=b', `PATH=${process.env.PATH}`]))
  const ours = lines.filter((line: string) => line.startsWith('EBB_') && !line.startsWith('EBB_TEST_'))
  // The environment tag, by which Ebb finds its processes, cannot be set by a caller.
  expect(ours).toEqual([expect.stringMatching(/^EBB_SCOPE=.*\//)])
  expect(lines.join('\n')).not.toContain('a-secret-token')
})

async function poll<T>(look: () => Promise<T | undefined>): Promise<T> {
  const until = performance.now() + 10_000
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    if (performance.now() > until) throw new Error('The awaited value did not appear within 10 s.')
  }
}
