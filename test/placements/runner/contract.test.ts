import { randomUUID } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryHome } from '../../support/home.ts'
import { leftInHome, openBooks } from '../../support/ledger-file.ts'
import { type Json, startServer } from '../../support/server.ts'
import { agentProcesses, useServer } from '../../support/shared-server.ts'
import { waitUntil } from '../../support/world.ts'
import { RunnerClient, shell } from './client.ts'

/** The runner host as seen by a control plane that knows only the runner protocol. */

const server = useServer(['--runner'])
const client = (): RunnerClient => new RunnerClient(server.url)

/** Waits until nothing of any agent is left: no process, no row, no log, no open resource in the ledger. */
async function becomesEmpty(): Promise<void> {
  const look = async (): Promise<readonly string[]> => [
    ...agentProcesses(server.home),
    ...(await server.get<Json[]>('/api/agents')).map((one) => `agent ${one.id}`),
    ...leftInHome(server.home),
    ...readdirSync(join(server.home, 'archive')),
    ...openBooks(server.home).filter((one) => !one.startsWith('incarnation')),
  ]
  await waitUntil(look, 15_000, 'nothing of the agents of the runner is left')
}

describe('the runner host', () => {
  it('answers GET /health with the number of its agents', async () => {
    expect(await client().health()).toMatchObject({ status: 200, body: { status: 'ok', active_agents: 0, timestamp: expect.any(String) } })
    const { body } = await client().start(shell('sleep 1000'))
    expect((await client().health()).body).toMatchObject({ active_agents: 1 })
    await client().stop(body.agent_id)
    expect((await client().health()).body).toMatchObject({ active_agents: 0 })
  })

  it('exists only with --runner', async () => {
    await using other = await startServer()
    expect((await new RunnerClient(other.url).health()).status).toBe(404)
  })

  it('requires the token, and refuses a foreign Origin', async () => {
    await using other = await startServer(['--runner', '--token', 'a-token-of-the-runner'])
    expect((await new RunnerClient(other.url).health()).status).toBe(401)
    expect((await new RunnerClient(other.url).start(shell('true'))).status).toBe(401)
    expect((await new RunnerClient(other.url, 'a-token-of-the-runner').health()).status).toBe(200)
    const page = await fetch(`${other.url}/health`, { headers: { origin: 'http://elsewhere.example' } })
    expect(page.status).toBe(403)
  })

  it('lets a page of an allowed origin read X-Agent-Id', async () => {
    const page = 'https://page.example'
    await using other = await startServer(['--runner', '--allow-origin', page])
    const answer = await fetch(`${other.url}/agent/stream`, {
      method: 'POST',
      headers: { origin: page, 'content-type': 'application/json' },
      body: JSON.stringify(shell('true')),
    })
    await answer.text()
    expect(answer.headers.get('access-control-allow-origin')).toBe(page)
    // A browser hides response headers from the page unless this header lists them (Fetch, 3.3.5).
    expect(answer.headers.get('access-control-expose-headers')).toContain('X-Agent-Id')
  })

  it('starts an agent, reports its status, and stops it with proof', async () => {
    const started = await client().start(shell('trap "" TERM; echo here; setsid sleep 1000 & sleep 1000'))
    expect(started).toMatchObject({ status: 200, body: { agent_id: expect.any(String), pid: expect.any(Number), status: 'started' } })
    const id = started.body.agent_id
    expect(await client().status(id)).toMatchObject({
      status: 200,
      body: { agent_id: id, process_alive: true, exit_code: null, uptime: expect.any(Number) },
    })
    expect(await client().stop(id)).toEqual({ status: 200, body: { status: 'stopped', agent_id: id } })
    expect(agentProcesses(server.home)).toEqual([])
    // An agent that ended within the last minute is known, and every further stop succeeds.
    expect(await client().stop(id)).toEqual({ status: 200, body: { status: 'stopped', agent_id: id } })
    expect((await client().status(id)).body).toMatchObject({ process_alive: false })
  })

  it('streams raw lines as they come, and then the end', async () => {
    const stream = await client().stream(shell('echo "{\\"a\\": 1}"; echo; echo "  two  "; cat; printf last', { prompt: 'the prompt\n' }))
    await stream.closed
    expect(stream.id).toMatch(/^[0-9a-f-]{36}$/)
    expect(stream.type).toMatch(/^text\/event-stream/)
    expect(stream.lines).toEqual(['{"a": 1}', '', '  two  ', 'the prompt', 'last'])
    expect(stream.last).toEqual({ name: 'complete', data: '{}' })
    expect(stream.isBroken).toBe(false)
    expect(agentProcesses(server.home)).toEqual([])
    await becomesEmpty()
  })

  it('sends a line when it is written, not when the agent ends', async () => {
    const pipe = join(temporaryHome(), 'go')
    const stream = await client().stream(shell(`echo first; until [ -e '${pipe}' ]; do sleep 0.05; done; echo second`))
    await stream.received(1)
    expect(stream.lines).toEqual(['first'])
    writeFileSync(pipe, '')
    await stream.closed
    expect(stream.lines).toEqual(['first', 'second'])
  })

  it('loses nothing after a carriage return, which ends a line of SSE', async () => {
    const stream = await client().stream(shell('printf "10%%\\r50%%\\r100%%\\r\\nend\\n"'))
    await stream.closed
    expect(stream.lines).toEqual(['10%\n50%\n100%', 'end'])
  })

  it('passes on a very long line completely', async () => {
    const stream = await client().stream(shell('head -c 3000000 /dev/zero | tr "\\0" x; echo; echo end'))
    await stream.closed
    expect(stream.lines.map((line) => line.length)).toEqual([3_000_000, 3])
    expect(stream.last?.name).toBe('complete')
  })

  it.each([
    ['exits with an error', 'echo x; exit 7', /code 7/],
    ['is killed', 'echo x; kill -9 $$', /SIGKILL/],
  ])('sends `event: error` when an agent %s', async (_what, script, says) => {
    const stream = await client().stream(shell(script))
    await stream.closed
    expect(stream.last?.name).toBe('error')
    expect(JSON.parse(stream.last?.data ?? '')).toEqual({ error: expect.stringMatching(says) })
    expect((await client().status(stream.id)).body).toMatchObject({ process_alive: false })
  })

  it('remembers the exit code of an agent that has ended', async () => {
    const stream = await client().stream(shell('exit 7'))
    await stream.closed
    expect((await client().status(stream.id)).body).toMatchObject({ process_alive: false, exit_code: 7 })
    await becomesEmpty()
    expect((await client().status(stream.id)).body).toMatchObject({ process_alive: false, exit_code: 7 })
  })

  it('ends the stream with `event: error` when its agent is stopped', async () => {
    const stream = await client().stream(shell('echo here; sleep 1000'))
    await stream.received(1)
    expect((await client().stop(stream.id)).status).toBe(200)
    await stream.closed
    expect(stream.last).toEqual({ name: 'error', data: expect.stringContaining('stopped') })
    await becomesEmpty()
  })

  it('accepts the id of an agent in upper case', async () => {
    const id = randomUUID()
    const capitals = id.toUpperCase()
    expect((await client().start(shell('sleep 1000', { agent_id: capitals }))).body).toMatchObject({ agent_id: id })
    expect((await client().status(capitals)).body).toMatchObject({ agent_id: id, process_alive: true })
    expect((await client().stop(capitals)).body).toEqual({ status: 'stopped', agent_id: id })
  })

  it('answers a stop when the processes are gone, even if a log cannot be archived', async () => {
    const [started, streamed] = [randomUUID(), randomUUID()]
    for (const id of [started, streamed]) {
      const inTheWay = join(server.home, 'archive', id, 'stderr.log')
      mkdirSync(inTheWay, { recursive: true })
      writeFileSync(join(inTheWay, 'x'), '')
    }
    await client().start(shell('sleep 1000', { agent_id: started }))
    for (let round = 0; round < 2; round++) {
      expect(await client().stop(started)).toEqual({ status: 200, body: { status: 'stopped', agent_id: started } })
      expect(agentProcesses(server.home)).toEqual([])
      expect((await client().status(started)).body).toMatchObject({ process_alive: false })
    }
    expect((await server.get('/api/cleanup/status')).heldBack).not.toEqual([])
    // A streamed agent whose log is held back still ends with the outcome `complete`.
    const stream = await client().stream(shell('echo here', { agent_id: streamed }))
    await stream.closed
    expect(stream.events).toEqual([
      { name: '', data: 'here' },
      { name: 'complete', data: '{}' },
    ])
  })

  it('serves one stream after another on the same connection without leaking listeners', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const sockets = new Set<unknown>()
    const body = JSON.stringify(shell('echo here'))
    for (let round = 0; round < 15; round++) {
      const text = await new Promise<string>((resolve, reject) => {
        const call = request(`${server.url}/agent/stream`, { method: 'POST', agent, headers: { 'content-type': 'application/json' } })
        call.once('error', reject)
        call.once('response', (response) => {
          sockets.add(response.socket)
          let all = ''
          response.on('data', (chunk: Buffer) => {
            all += chunk.toString('utf8')
          })
          response.once('end', () => resolve(all))
        })
        call.end(body)
      })
      expect(text).toContain('event: complete')
    }
    agent.destroy()
    expect(sockets.size).toBe(1)
    // Node warns when an emitter has more than ten listeners.
    expect(server.ebb.errorOutput()).not.toContain('MaxListenersExceeded')
  })

  it('runs two agents independently', async () => {
    const [one, two] = await Promise.all([client().stream(shell('echo one; sleep 1000')), client().stream(shell('echo two; sleep 1000'))])
    await Promise.all([one.received(1), two.received(1)])
    await client().stop(one.id)
    await one.closed
    expect((await client().status(two.id)).body).toMatchObject({ process_alive: true })
    expect(two.lines).toEqual(['two'])
    await client().stop(two.id)
    await two.closed
  })

  it('answers 404 for unknown agents', async () => {
    for (const id of [randomUUID(), 'no-uuid', '..%2F..']) {
      expect(await client().stop(id)).toMatchObject({ status: 404, body: { code: 'agent_not_found' } })
      expect(await client().status(id)).toMatchObject({ status: 404, body: { code: 'agent_not_found' } })
    }
  })

  it('refuses a launch with an id that was stopped before the launch arrived', async () => {
    const id = randomUUID()
    expect((await client().stop(id)).status).toBe(404)
    expect(await client().start(shell('sleep 1000', { agent_id: id }))).toMatchObject({ status: 409, body: { code: 'agent_exists' } })
  })

  it('accepts a given id once', async () => {
    const id = randomUUID()
    expect((await client().start(shell('sleep 1000', { agent_id: id }))).body).toMatchObject({ agent_id: id })
    expect(await client().start(shell('sleep 1000', { agent_id: id }))).toMatchObject({ status: 409, body: { code: 'agent_exists' } })
    expect((await client().status(id)).body).toMatchObject({ process_alive: true })
    expect((await client().stop(id)).status).toBe(200)
    expect(await client().start(shell('sleep 1000', { agent_id: id }))).toMatchObject({ status: 409 })
    // The ids of the server's own agents are refused too.
    const other = await server.command(['sleep', '1000'])
    expect(await client().start(shell('sleep 1000', { agent_id: other }))).toMatchObject({ status: 409 })
    expect(await server.get(`/api/agents/${other}`)).toMatchObject({ status: 'running' })
    expect((await client().stop(other)).status).toBe(404)
    const ended = await server.command(['true'])
    await server.get(`/api/agents/${ended}/status?wait=15000`)
    expect(await client().start(shell('sleep 1000', { agent_id: ended }))).toMatchObject({ status: 409, body: { code: 'agent_exists' } })
    expect(await server.get(`/api/agents/${ended}`)).toMatchObject({ status: 'completed' })
  })
})

describe('the body of a launch at the runner', () => {
  it.each([
    ['no JSON', '{', /JSON/],
    ['no prompt', {}, /prompt/],
    ['a prompt that is no text', { prompt: 7 }, /prompt/],
    ['an id that is no UUID', { prompt: '', agent_id: 'x' }, /agent_id/],
    ['a working directory that is not absolute', { prompt: '', working_directory: 'x' }, /working_directory/],
    ['an unknown type', { prompt: '', type: 'nobody' }, /nobody/],
    ['tools that are none', { prompt: '', allowed_tools: { a: 1 } }, /allowed_tools/],
    ['an MCP configuration that is no JSON', { prompt: '', mcp_config: '{' }, /mcp_config/],
    ['an MCP configuration without servers', { prompt: '', mcp_config: '{}' }, /mcp_config\.mcpServers/],
    ['an MCP server without a command', { prompt: '', mcp_config: '{"mcpServers":{"a":{}}}' }, /mcp_config/],
    [
      'an MCP server with headers, which cannot be passed on',
      { prompt: '', mcp_config: '{"mcpServers":{"a":{"type":"http","url":"http://x","headers":{"Authorization":"x"}}}}' },
      /headers\.Authorization cannot be passed on/,
    ],
    ['a command that does not exist', { prompt: '', type: 'command', configuration: { command: ['/no/such/program'] } }, /program/],
  ])('with %s is refused with an error in the usual shape', async (_what, body, says) => {
    const { status, body: answer } = await client().start(body)
    expect(answer).toMatchObject({ statusCode: 400, code: expect.any(String), message: expect.stringMatching(says) })
    expect(status).toBe(400)
    const streamed = client().stream(typeof body === 'string' ? { prompt: 0 } : body)
    await expect(streamed).rejects.toThrow(/answered with 400/)
    await becomesEmpty()
  })

  it('may have null for absent fields', async () => {
    const nothing = { session_id: null, model: null, working_directory: null, mcp_config: null, mcp_strict: null, allowed_tools: null }
    const stream = await client().stream(shell('echo ok', { ...nothing, configuration: { command: ['echo', 'ok'] } }))
    await stream.closed
    expect(stream.lines).toEqual(['ok'])
  })

  it('sets the working directory; fields of the protocol win over `configuration`', async () => {
    const [here, there] = [temporaryHome(), temporaryHome()]
    const stream = await client().stream(
      shell('', { working_directory: here, configuration: { command: ['pwd'], workingDirectory: there } }),
    )
    await stream.closed
    expect(stream.lines).toEqual([here])
  })

  it('sets the MCP servers of the agent', async () => {
    const mcp_config = JSON.stringify({ mcpServers: { notes: { command: 'notes-server', args: ['-v'], env: { KEY: 'value' } } } })
    const stream = await client().stream(shell('cat "$EBB_MCP_CONFIG"', { mcp_config }))
    await stream.closed
    expect(JSON.parse(stream.lines.join('\n'))).toMatchObject({ mcpServers: { notes: { command: 'notes-server', args: ['-v'] } } })
    await becomesEmpty()
  })

  it('leaves no secret in the database or in the log of the server', async () => {
    const secret = `secret-${randomUUID()}`
    const stream = await client().stream(
      shell('', { configuration: { command: ['sh', '-c', 'printenv KEY | wc -c'], env: { KEY: secret } } }),
    )
    await stream.closed
    expect(stream.lines).toEqual([String(secret.length + 1)])
    for (const file of readdirSync(server.home).filter((name) => name.startsWith('ebb.db')))
      expect(readFileSync(join(server.home, file), 'latin1')).not.toContain(secret)
    expect(server.ebb.errorOutput()).not.toContain(secret)
  })
})

it('runner: 100 agents in a row leave nothing', { timeout: 120_000 }, async () => {
  const runner = client()
  const started = new Set<string>()
  for (let index = 0; index < 100; index++) {
    if (index % 2 === 0) {
      const { body } = await runner.start(shell('sleep 1000'))
      started.add(body.agent_id)
      expect((await runner.stop(body.agent_id)).status).toBe(200)
      continue
    }
    const stream = await runner.stream(shell('echo x'))
    await stream.closed
    expect(stream.last?.name).toBe('complete')
  }
  expect(agentProcesses(server.home)).toEqual([])
  expect((await runner.health()).body).toMatchObject({ active_agents: 0 })
  expect(leftInHome(server.home)).toEqual([])
  // The rows of started agents stay for the minute in which the agents are remembered. Streamed agents leave nothing.
  const streamed = async (): Promise<readonly string[]> =>
    (await server.get<Json[]>('/api/agents')).map(({ id }) => id).filter((id) => !started.has(id))
  await waitUntil(streamed, 15_000, 'the rows of the streamed agents are gone')
})
