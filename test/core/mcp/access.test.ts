import { readdirSync, readFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { nodeProgram, root, startEbb, temporaryHome } from '../../support/home.ts'
import { type McpClient, mcpOverHttp, mcpOverStdio } from '../../support/mcp.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'

/** Access to `/mcp`, and its answers to hostile clients. */

const token = 'the-token-of-the-server'
const page = 'https://page.example'
let open: TestServer
let guarded: TestServer

beforeAll(async () => {
  ;[open, guarded] = await Promise.all([startServer(), startServer(['--token', token, '--allow-origin', page, '--task-concurrent', '2'])])
})

afterAll(async () => {
  await Promise.all([open.stop(), guarded.stop()])
})

const json = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
const hello = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
}

interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

async function send(url: string, { method = 'POST', headers = {}, body = hello }: Sent = {}): Promise<Response> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  // A stream opens at once, before there is any event.
  const signal = AbortSignal.timeout(10_000)
  return await fetch(`${url}/mcp`, { method, headers: { ...json, ...headers }, signal, ...(method === 'POST' && { body: text }) })
}

const as = (shown: string): Readonly<Record<string, string>> => ({ authorization: `Bearer ${shown}` })

async function sessionOf(url: string, headers: Readonly<Record<string, string>> = {}): Promise<string> {
  const answer = await send(url, { headers })
  await answer.text()
  return answer.headers.get('mcp-session-id') ?? ''
}

/** Deploys an agent that waits, and reads the token from its configuration. */
async function deployed(url: string, shown?: string): Promise<{ task_id: string; agent_id: string; token: string; end(): Promise<void> }> {
  const mcp = await mcpOverHttp(url, shown === undefined ? {} : { token: shown })
  const { task_id } = await mcp.call('create_real_task', { description: 'Tokens', client_cwd: temporaryHome() })
  const script =
    'const { env } = process; console.log(require("fs").readFileSync(env.EBB_MCP_CONFIG, "utf8").replace(/\\n/g, "")); setInterval(() => {}, 1e6)'
  const { agent_id } = await mcp.call('deploy_headless_agent', {
    task_id,
    agent_type: 'holder',
    prompt: 'p',
    provider: 'command',
    placement: 'process',
    command: [nodeProgram, '-e', script],
  })
  let line: string | undefined
  while (line === undefined) [line] = (await mcp.call('get_agent_output', { task_id, agent_id })).output
  const { mcpServers } = JSON.parse(line) as Json
  return {
    task_id,
    agent_id,
    token: mcpServers.ebb.env.EBB_TOKEN,
    end: async () => {
      await mcp.call('complete_real_task', { task_id })
      await mcp.close()
    },
  }
}

describe('/mcp: tokens', () => {
  it('accepts the token of the server or of a running agent; other routes refuse the token of an agent', async () => {
    const answers = await Promise.all([send(guarded.url), send(guarded.url, { headers: as('not-the-token') })])
    for (const answer of answers) expect([answer.status, await answer.json()]).toMatchObject([401, { code: 'unauthorized' }])
    const agent = await deployed(guarded.url, token)
    const mine = await mcpOverHttp(guarded.url, { token: agent.token })
    expect(await mine.call('get_real_task_status', { task_id: agent.task_id })).toMatchObject({ success: true })
    const elsewhere = await guarded.call('GET', '/api/agents', { headers: as(agent.token) })
    expect([elsewhere.status, elsewhere.body]).toMatchObject([401, { code: 'unauthorized' }])
    // The limits of the task also apply to launches into it over HTTP.
    const body = { type: 'command', prompt: '', taskId: agent.task_id, configuration: { command: ['sleep', '1000'] } }
    const launch = () => guarded.call('POST', '/api/agents', { body, headers: as(token) })
    const { body: launched } = await launch()
    const named = await guarded.call('GET', `/api/agents/${launched.id}`, { headers: as(token) })
    expect(named.body).toMatchObject({ name: expect.stringMatching(/^command-\d{6}-/), taskId: agent.task_id })
    expect(await launch()).toMatchObject({
      status: 429,
      body: { code: 'spawn_refused', message: expect.stringMatching(/task-concurrent/) },
    })
    await agent.end()
    expect((await send(guarded.url, { headers: as(agent.token) })).status).toBe(401)
    await mine.client.close()
  })

  it("on a server without a token, an unknown token is refused, and only an agent's token acts as the agent", async () => {
    expect((await send(open.url, { headers: as('made-up-by-somebody') })).status).toBe(401)
    const agent = await deployed(open.url)
    const own = { task_id: agent.task_id, agent_id: agent.agent_id, status: 'working', message: 'm' }
    const mine = await mcpOverHttp(open.url, { token: agent.token })
    expect(await mine.call('update_agent_progress', own)).toMatchObject({ success: true, own_update: true })
    await using anybody = await mcpOverHttp(open.url)
    expect(await anybody.call('update_agent_progress', own)).toMatchObject({ success: true, own_update: false })
    // An agent sees no other tasks.
    const { task_id } = await anybody.call('create_real_task', { description: 'Another', client_cwd: temporaryHome() })
    expect(await mine.call('get_real_task_status', { task_id })).toMatchObject({ success: false, code: 'forbidden' })
    const listed = (await mine.client.readResource({ uri: 'tasks://list' })).contents as readonly { readonly text: string }[]
    expect(JSON.parse(listed[0]?.text ?? '').tasks.map((task: Json) => task.task_id)).toEqual([agent.task_id])
    await anybody.call('complete_real_task', { task_id })
    await mine.close()
    await agent.end()
  })

  it('a session belongs to the caller that opened it, and the session of an agent ends with the agent', async () => {
    const agent = await deployed(open.url)
    const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' }
    const [theirs, ours] = await Promise.all([sessionOf(open.url), sessionOf(open.url, as(agent.token))])
    const use = async (session: string, headers = {}): Promise<number> => {
      const answer = await send(open.url, { headers: { 'mcp-session-id': session, ...headers }, body: list })
      await answer.text()
      return answer.status
    }
    expect(await Promise.all([use(theirs), use(ours, as(agent.token)), use(theirs, as(agent.token)), use(ours)])).toEqual([
      200, 200, 404, 404,
    ])
    // The agent's stream ends with the agent.
    const stream = await send(open.url, { method: 'GET', headers: { 'mcp-session-id': ours, ...as(agent.token) } })
    expect(stream.status).toBe(200)
    await agent.end()
    await stream.text()
    expect(await use(ours, as(agent.token))).toBe(401)
  })

  it('a wrong token over stdio is answered with an error message', async () => {
    const { ended } = startEbb(['mcp', '--token', 'the-wrong-token'], { home: guarded.home, input: '' })
    expect(await ended).toMatchObject({ code: 1, stderr: expect.stringMatching(/^ebb: The server at .* requires a token/) })
    const far = startEbb(['mcp', '--url', guarded.url, '--token', 'the-wrong-token'], { home: temporaryHome() })
    far.child.stdin?.write(`${JSON.stringify(hello)}\n`)
    await far.says('\n')
    expect(JSON.parse(far.output())).toMatchObject({ id: 1, error: { message: expect.stringMatching(/token/) } })
    far.endInput()
    expect((await far.ended).code).toBe(0)
  })

  it('no answer and no log contains the token of an agent', async () => {
    const home = temporaryHome()
    await using mcp = await mcpOverStdio({ home, cwd: home, words: ['--log-level', 'debug'] })
    const { task_id } = await mcp.call('create_real_task', { description: 'Secret' })
    const fixture = join(root, 'test', 'fixtures', 'calls-back-over-mcp.ts')
    const words = ['update_agent_progress {"status":"working","message":"m"}', 'wait']
    const agent = {
      task_id,
      agent_type: 'a',
      prompt: 'p',
      provider: 'command',
      placement: 'process',
      command: [nodeProgram, fixture, ...words],
    }
    const { agent_id, agent_uuid } = await mcp.call('deploy_headless_agent', agent)
    while ((await mcp.call('get_agent_output', { task_id, agent_id })).output.length === 0);
    const [file = ''] = readdirSync(join(home, 'run')).filter((name) => name.includes(agent_uuid) && !name.endsWith('.temp'))
    const { mcpServers } = JSON.parse(readFileSync(join(home, 'run', file), 'utf8')) as Json
    const secret: string = mcpServers.ebb.env.EBB_TOKEN
    expect(secret).toMatch(/^[\w-]{22,}$/)
    const answers = [
      await mcp.call('get_real_task_status', { task_id }),
      await mcp.call('cleanup_agent_resources', { task_id, agent_id }),
      await mcp.call('complete_real_task', { task_id }),
    ]
    expect(JSON.stringify(answers) + mcp.errorOutput()).not.toContain(secret)
  })
})

describe('/mcp: hostile clients', () => {
  it('a web page is refused', async () => {
    const page = await send(open.url, { headers: { origin: 'http://evil.example' } })
    expect([page.status, await page.json()]).toMatchObject([403, { code: 'forbidden' }])
    const { hostname, port } = new URL(open.url)
    const rebound = await new Promise<number | undefined>((resolve, reject) => {
      const call = request({ hostname, port, path: '/mcp', method: 'POST', headers: { ...json, host: 'evil.example' } }, (answer) => {
        answer.resume()
        resolve(answer.statusCode)
      })
      call.once('error', reject)
      call.end(JSON.stringify(hello))
    })
    expect(rebound).toBe(403)
  })

  it('a page of an allowed origin may call and can read its session id', async () => {
    const asked = { method: 'OPTIONS', headers: { origin: page, 'access-control-request-method': 'POST' } }
    const preflight = await fetch(`${guarded.url}/mcp`, asked)
    expect([preflight.status, preflight.headers.get('access-control-allow-origin')]).toEqual([204, page])
    for (const name of ['authorization', 'content-type', 'mcp-session-id', 'mcp-protocol-version'])
      expect(preflight.headers.get('access-control-allow-headers')?.toLowerCase()).toContain(name)
    const answer = await send(guarded.url, { headers: { origin: page, ...as(token) } })
    expect(await answer.text()).toContain('"serverInfo"')
    expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([200, page])
    expect(answer.headers.get('access-control-expose-headers')).toContain('Mcp-Session-Id')
    const session = { 'mcp-session-id': answer.headers.get('mcp-session-id') ?? '' }
    expect((await send(guarded.url, { headers: { origin: page, ...session } })).status).toBe(401)
    const listed = await send(guarded.url, {
      headers: { origin: page, ...session, ...as(token) },
      body: { jsonrpc: '2.0', id: 2, method: 'tools/list' },
    })
    expect(await listed.text()).toContain('create_real_task')
    expect((await fetch(`${guarded.url}/mcp`, { ...asked, headers: { ...asked.headers, origin: 'https://evil.example' } })).status).toBe(
      403,
    )
  })

  it('requests that are not MCP are answered and do no harm', async () => {
    const status = async (sent: Sent): Promise<number> => {
      const answer = await send(open.url, sent)
      await answer.text()
      return answer.status
    }
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
    expect(await status({ body: '{"jsonrpc":' })).toBe(400)
    expect(await status({ body: 'null' })).toBe(400)
    expect(await status({ body: deep })).toBe(400)
    expect(await status({ body: { jsonrpc: '2.0', id: 1, method: 'tools/list' } })).toBe(400)
    expect(await status({ method: 'GET' })).toBe(400)
    expect(await status({ method: 'DELETE' })).toBe(400)
    expect(await status({ method: 'PUT' })).toBe(404)
    expect(await status({ headers: { 'mcp-session-id': 'made-up' } })).toBe(404)
    expect(await status({ headers: { 'content-type': 'text/plain' } })).toBe(415)
    expect(await status({ headers: { accept: 'text/html' } })).toBe(406)
    expect(await status({ body: 'x'.repeat(1_100_000) })).toBe(413)
    expect(await status({ headers: { 'x-ebb-cwd': '%E0%A4%A' } })).toBe(400)
    expect(await status({ headers: { 'x-ebb-cwd': 'relative' } })).toBe(400)
    expect(await status({ headers: { 'x-ebb-namespace': 'no/name' } })).toBe(400)
    const data = `${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}`
    const finding = `{"task_id":"t","agent_id":"a","finding_type":"t","severity":"s","message":"m","data":${data}}`
    const body = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"report_agent_finding","arguments":${finding}}}`
    const answer = await send(open.url, { headers: { 'mcp-session-id': await sessionOf(open.url) }, body })
    expect(await answer.text()).toMatch(/data must be nested at most 100 deep/)
  })

  it('there are at most 200 sessions: a new one replaces the least recently used', async () => {
    const ids: string[] = []
    for (let round = 0; round < 11; round++) ids.push(...(await Promise.all(Array.from({ length: 20 }, () => sessionOf(open.url)))))
    expect(new Set(ids).size).toBe(220)
    const ping = { jsonrpc: '2.0', id: 2, method: 'ping' }
    const answers = await Promise.all(ids.map((id) => send(open.url, { headers: { 'mcp-session-id': id }, body: ping })))
    const living = await Promise.all(answers.map(async (answer) => [await answer.text(), answer.status === 200] as const))
    expect(living.filter(([, isThere]) => isThere).length).toBe(200)
    expect(living.slice(0, 20).every(([, isThere]) => !isThere)).toBe(true)
  })

  it('a server that exits ends every stream at once', async () => {
    const own = await startServer()
    const id = await sessionOf(own.url)
    const stream = await send(own.url, { method: 'GET', headers: { 'mcp-session-id': id } })
    own.ebb.signal('SIGTERM')
    // The stream ends normally; its connection is not cut off at the shutdown deadline.
    await expect(stream.text()).resolves.toBe('')
    expect((await own.ebb.ended).code).toBe(0)
  })
})

it('/mcp: a client with a namespace works only in that namespace', async () => {
  await using mcp = await mcpOverHttp(open.url, { headers: { 'X-Ebb-Namespace': 'worker-7' } })
  const task = await mcp.call('create_real_task', { description: 'There', client_cwd: temporaryHome() })
  expect(task).toMatchObject({ namespace: 'worker-7' })
  expect((await open.get(`/api/cleanup/status?namespace=worker-7`)).leaks).toEqual([])
  const { task_id } = task
  const agent = { provider: 'command', placement: 'process', command: ['sleep', '1000'], prompt: 'p' }
  const { agent_id } = await mcp.call('deploy_headless_agent', { task_id, agent_type: 'a', ...agent })
  await using stranger = await mcpOverHttp(open.url, { headers: { 'X-Ebb-Namespace': 'worker-8' } })
  for (const [name, args] of [
    ['get_real_task_status', {}],
    ['complete_real_task', {}],
    ['get_agent_output', { agent_id }],
    ['kill_real_agent', { agent_id }],
    ['cleanup_agent_resources', { agent_id }],
    ['update_agent_progress', { agent_id, status: 'completed', message: 'm' }],
    ['report_agent_finding', { agent_id, finding_type: 't', severity: 's', message: 'm' }],
    ['deploy_headless_agent', { agent_type: 'b', ...agent }],
    ['spawn_child_agent', { parent_agent_id: agent_id, child_agent_type: 'b', child_prompt: 'p', ...agent, prompt: undefined }],
  ] as const)
    expect(await stranger.call(name, { task_id, ...args }), name).toMatchObject({ success: false, code: 'task_not_found' })
  const listed = async ({ client }: McpClient): Promise<readonly string[]> => {
    const [content] = (await client.readResource({ uri: 'tasks://list' })).contents as readonly { readonly text: string }[]
    return JSON.parse(content?.text ?? '').tasks.map((one: Json) => one.task_id)
  }
  expect([await listed(mcp), await listed(stranger)]).toEqual([[task_id], []])
  await expect(stranger.client.readResource({ uri: `task://${task_id}/status` })).rejects.toThrow(/There is no task/)
  expect(await mcp.call('get_real_task_status', { task_id })).toMatchObject({ agents: { active: 1, total_spawned: 1 } })
  await mcp.call('complete_real_task', { task_id: task.task_id })
})

it('/mcp: agents work in client_cwd, also when the workspace is elsewhere', async () => {
  const [workspace_base, client_cwd, own] = [temporaryHome(), temporaryHome(), temporaryHome()]
  await using mcp = await mcpOverHttp(open.url, { headers: { 'X-Ebb-Cwd': encodeURIComponent(own) } })
  for (const [folders, base, cwd] of [
    [{ workspace_base, client_cwd }, workspace_base, client_cwd],
    [{ workspace_base }, workspace_base, workspace_base],
    [{ client_cwd }, client_cwd, client_cwd],
    [{}, own, own],
  ] as const) {
    const { task_id, workspace } = await mcp.call('create_real_task', { description: 'Where', ...folders })
    expect(workspace).toBe(join(base, '.agent-workspace', task_id))
    const command = ['sh', '-c', 'pwd; exec sleep 1000']
    const agent = { agent_type: 'a', prompt: 'p', provider: 'command', placement: 'process', command }
    const { agent_id } = await mcp.call('deploy_headless_agent', { task_id, ...agent })
    let output: readonly string[] = []
    while (output.length === 0) ({ output } = await mcp.call('get_agent_output', { task_id, agent_id }))
    expect(output).toEqual([cwd])
    await mcp.call('complete_real_task', { task_id })
  }
  const nowhere = await mcp.call('create_real_task', { description: 'Where', workspace_base, client_cwd: join(own, 'nowhere') })
  expect(nowhere).toMatchObject({ success: false, error: expect.stringMatching(/nowhere.*does not exist/) })
})
