import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { temporaryHome } from '../../support/home.ts'
import { leftInHome } from '../../support/ledger-file.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { survivors, waitUntil } from '../../support/world.ts'

/**
 * Runners that are broken or hostile. Whatever they answer, the control plane must keep running, with bounded memory and without false
 * reports.
 */

type Handler = (request: IncomingMessage, response: ServerResponse, runner: FakeRunner) => void

class FakeRunner implements AsyncDisposable {
  readonly #server: Server
  readonly calls: string[] = []
  isAlive = true
  /** The HTTP response of the agent's output stream while the stream is open. */
  streaming: ServerResponse | undefined

  private constructor(server: Server) {
    this.#server = server
  }

  /** Starts a runner that follows the runner protocol, except for the given calls. */
  static async start(odd: Readonly<Record<string, Handler>>): Promise<FakeRunner> {
    const server = createServer({ maxHeaderSize: 1_000_000 })
    const runner = new FakeRunner(server)
    server.on('request', (request, response) => {
      const { method = '', url = '' } = request
      runner.calls.push(`${method} ${url}`)
      request.resume()
      request.on('end', () => {
        const [, kind = ''] = /^\/(health|agent\/\w+)/.exec(url) ?? []
        const handler = odd[kind] ?? usual[kind]
        if (handler) handler(request, response, runner)
        else response.writeHead(404).end()
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return runner
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

const json = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** An id in the style of a runner that is another program than Ebb, which also does not name its installation. */
const ownId = 'agent-0001'
const usual: Readonly<Record<string, Handler>> = {
  health: (_request, response) => json(response, 200, { status: 'ok', timestamp: new Date().toISOString(), active_agents: 0 }),
  'agent/stream': (request, response, runner) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-agent-id': ownId })
    response.write('data: here\n\n')
    runner.streaming = response
    request.socket.once('close', () => {
      runner.isAlive = false
    })
  },
  'agent/stop': (request, response, runner) => {
    if (!request.url?.endsWith(ownId)) return json(response, 404, { error: 'Agent not found' })
    runner.isAlive = false
    runner.streaming?.end('event: error\ndata: {"error": "stopped"}\n\n')
    return json(response, 200, { status: 'stopped', agent_id: ownId })
  },
  'agent/status': (request, response, runner) => {
    if (!request.url?.endsWith(ownId)) return json(response, 404, { error: 'Agent not found' })
    return json(response, 200, { agent_id: ownId, process_alive: runner.isAlive, exit_code: null, uptime: 1 })
  },
}

const body = (more: object = {}): object => ({
  ...{ type: 'command', placement: 'remote', prompt: '', configuration: { command: ['true'] } },
  ...more,
})

const stream =
  (...pieces: readonly (string | Buffer)[]): Handler =>
  (request, response, runner) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-agent-id': ownId })
    for (const piece of pieces) response.write(piece)
    response.end()
    request.socket.once('close', () => {
      runner.isAlive = false
    })
    runner.isAlive = false
  }

async function agentAtEnd(server: TestServer, id: string): Promise<Json> {
  await server.get(`/api/agents/${id}/status?wait=20000`)
  return await server.get(`/api/agents/${id}`)
}

/** Answers 404 for an unknown id. The runner protocol defines the status of this answer, and no body. */
const unknownId =
  (body?: object): Handler =>
  (request, response, runner) => {
    if (request.url?.endsWith(ownId) && runner.streaming) {
      const kind = request.url.includes('/stop/') ? 'agent/stop' : 'agent/status'
      return usual[kind]?.(request, response, runner)
    }
    return body ? json(response, 404, body) : void response.writeHead(404).end()
  }

it.each([
  ['with a body', {}],
  ['without a body', { 'agent/stop': unknownId(), 'agent/status': unknownId() }],
  ['with a short body', { 'agent/stop': unknownId({ error: 'not found' }), 'agent/status': unknownId({ error: 'not found' }) }],
])('remote: a runner of another program works with the bare runner protocol, with a 404 %s', async (_how, odd) => {
  await using runner = await FakeRunner.start(odd)
  await using server = await startServer(['--remote-url', runner.url])
  const id = await server.launch(body())
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
  expect(runner.calls).toContain(`POST /agent/stop/${ownId}`)
  expect((await server.call('DELETE', `/api/agents/${id}`)).status).toBe(204)
})

it('remote: a runner that stops an agent and leaves its stream open does not block the stop', async () => {
  await using runner = await FakeRunner.start({
    'agent/stop': (_request, response, own) => {
      own.isAlive = false
      json(response, 200, { status: 'stopped', agent_id: ownId })
    },
  })
  await using server = await startServer(['--remote-url', runner.url])
  const id = await server.launch(body())
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
  expect((await server.get<Json[]>(`/api/agents/${id}/messages?since=1`)).map(({ content }) => content)).toEqual(['here'])
})

it.each([
  [
    'sends "complete" and disconnects',
    stream('data: one\n\n', 'event: complete\ndata: {}\n\n'),
    { status: 'completed', exitCode: 0 },
    ['one'],
  ],
  [
    'sends "error"',
    stream('data: one\n\n', 'event: error\ndata: {"error": "no"}\n\n'),
    { status: 'failed', error: { name: 'runner_error', message: 'no' } },
    ['one'],
  ],
  ['closes early', stream('data: one\n\ndata: tw'), { status: 'failed' }, ['one']],
  [
    'sends garbage',
    stream(Buffer.from([0, 255, 13, 10]), 'nonsense\n\n: \r\r', 'data:one\r\rdata\r\n\r\n'),
    { status: 'failed' },
    ['one', ''],
  ],
  [
    'splits its bytes badly',
    stream('da', 'ta: on', 'e\r', '\n\r', '\nevent: com', 'plete\r\ndata: {}\r\n\r\n'),
    { status: 'completed' },
    ['one'],
  ],
  ['sends other events', stream('event: other\ndata: x\n\ndata: one\n\nevent: complete\ndata: {}\n\n'), { status: 'completed' }, ['one']],
] as const)('remote: a runner that %s', async (_what, handler, end, lines) => {
  await using runner = await FakeRunner.start({ 'agent/stream': handler })
  await using server = await startServer(['--remote-url', runner.url])
  const id = await server.launch(body())
  expect(await agentAtEnd(server, id)).toMatchObject(end)
  expect((await server.get<Json[]>(`/api/agents/${id}/messages?since=1`)).map(({ content }) => content)).toEqual(lines)
})

it('remote: an "error" of the runner fails the agent, even with exit code 0', async () => {
  await using runner = await FakeRunner.start({
    'agent/stream': stream('data: one\n\n', 'event: error\ndata: {"error": "Its upload failed."}\n\n'),
    'agent/status': (request, response) =>
      request.url?.endsWith(ownId)
        ? json(response, 200, { agent_id: ownId, process_alive: false, exit_code: 0, uptime: 1 })
        : json(response, 404, { error: 'Agent not found' }),
  })
  await using server = await startServer(['--remote-url', runner.url])
  const id = await server.launch(body())
  expect(await agentAtEnd(server, id)).toMatchObject({
    status: 'failed',
    exitCode: 0,
    error: { name: 'runner_error', message: 'Its upload failed.' },
  })
})

it('remote: a token is sent only to the runner for which it was set', { timeout: 120_000 }, async () => {
  const shown: string[] = []
  const noting: Handler = (request, response, runner) => {
    shown.push(request.headers.authorization ?? '')
    ;(usual['agent/status'] as Handler)(request, response, runner)
  }
  await using first = await FakeRunner.start({ 'agent/status': noting })
  await using second = await FakeRunner.start({})
  const home = temporaryHome()
  const server = await startServer(['--remote-url', first.url, '--remote-token', 'the-first-token'], { home })
  const id = await server.launch(body())
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  // The sentinel has the runner and token of the first server. It is stopped, so that it does not recover the agent.
  const sentinels = survivors(home).filter(({ argv }) => argv.startsWith('ebb-sentinel'))
  for (const { pid } of sentinels) process.kill(pid, 'SIGSTOP')
  server.ebb.signal('SIGKILL')
  await server.ebb.ended
  for (const { pid } of sentinels) process.kill(pid, 'SIGKILL')
  {
    await using other = await startServer(['--remote-url', second.url, '--remote-token', 'the-second-token'], { home })
    const answer = await other.call('DELETE', `/api/agents/${id}?timeout=500`)
    expect(answer).toMatchObject({ status: 409, body: { message: expect.stringContaining('remote.token is not sent there') } })
    expect(answer.body.message).toContain(first.url)
    expect(new Set(shown)).toEqual(new Set(['Bearer the-first-token']))
  }
  await using again = await startServer(['--remote-url', first.url, '--remote-token', 'the-first-token'], { home })
  // The deletion was requested before, and the recovery of this server has completed it.
  expect((await again.call('GET', `/api/agents/${id}`)).status).toBe(404)
  expect(await again.get('/api/cleanup/status')).toMatchObject({ stuck: [], leaks: [] })
  expect(new Set(shown)).toEqual(new Set(['Bearer the-first-token']))
})

it.each([
  ['answers 500', { 'agent/stream': (_, response) => json(response, 500, { message: 'broken' }) }, /answered 500: broken\.$/],
  ['gives no id', { 'agent/stream': (_, response) => void response.writeHead(200).write('data: x\n\n') }, /no valid agent id/],
  [
    'sends an unusable id',
    { 'agent/stream': (_, response) => void response.writeHead(200, { 'x-agent-id': 'a b' }).write('\n') },
    /no valid agent id/,
  ],
  [
    'sends endless headers',
    { 'agent/stream': (_, response) => void response.writeHead(200, { x: 'y'.repeat(100_000) }).end() },
    /cannot be reached/,
  ],
  ['does not answer in HTTP', { 'agent/stream': (request) => void request.socket.end('hello\r\n\r\n') }, /cannot be reached/],
  ['hangs up', { 'agent/stream': (request) => void request.socket.destroy() }, /cannot be reached/],
  [
    'has no status route',
    { 'agent/status': (request, response) => json(response, 404, { message: `Cannot GET ${request.url}` }) },
    /answered 404: Cannot GET .*\. Nothing was launched/,
  ],
  ['sends an invalid health', { health: (_, response) => json(response, 200, ['ok']) }, /not an answer of a runner/],
  ['never answers a health check', { health: () => {} }, /did not answer within 4 s/],
  ['sends an endless health', { health: (_, response) => endless(response) }, /longer than/],
] as readonly (readonly [string, Readonly<Record<string, Handler>>, RegExp])[])(
  'remote: a launch is refused when the runner %s',
  async (_what, odd, says) => {
    await using runner = await FakeRunner.start(odd)
    await using server = await startServer(['--remote-url', runner.url])
    const answer = await server.call('POST', '/api/agents', { body: body() })
    expect([400, 500]).toContain(answer.status)
    expect(answer.body).toMatchObject({ message: expect.stringMatching(says) })
    expect(await server.get('/api/cleanup/status')).toMatchObject({ agentCount: 0, stuck: [], leaks: [] })
    expect(leftInHome(server.home)).toEqual([])
  },
)

function endless(response: ServerResponse): void {
  response.writeHead(200)
  const more = (): void => {
    while (!response.destroyed && response.write('x'.repeat(65_536)));
    if (!response.destroyed) response.once('drain', more)
  }
  more()
}

it('remote: a runner that sends an endless line is cut off at the log limit, without keeping the line in memory', {
  timeout: 120_000,
}, async () => {
  await using runner = await FakeRunner.start({
    'agent/stream': (request, response, own) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'x-agent-id': ownId })
      response.write('data: ')
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(65_536)));
        if (!response.destroyed) response.once('drain', more)
      }
      more()
      request.socket.once('close', () => {
        own.isAlive = false
      })
    },
    'agent/stop': (_request, response, own) => {
      own.isAlive = false
      json(response, 200, { status: 'stopped', agent_id: ownId })
    },
  })
  await using server = await startServer(['--remote-url', runner.url, '--limit-log', '5m'])
  const id = await server.launch(body())
  await waitUntil(async () => (await server.get(`/api/agents/${id}`)).status === 'failed', 60_000, 'the agent is ended')
  expect(await server.get(`/api/agents/${id}`)).toMatchObject({ error: { name: 'output_limit' } })
  expect((await server.get('/api/health')).memoryUsage.rss).toBeLessThan(400_000_000)
})

it.each([
  [
    'reports a stop that did not happen',
    { 'agent/stop': (_, response) => json(response, 200, { status: 'stopped', agent_id: ownId }) },
    /alive/,
  ],
  ['answers a stop with 500', { 'agent/stop': (_, response) => json(response, 500, {}) }, /answered 500/],
  ['answers a status call with 500', { 'agent/status': (_, response) => json(response, 500, {}) }, /answered 500/],
  [
    'answers a status call about another agent',
    { 'agent/status': (_, response) => json(response, 200, { agent_id: 'x', process_alive: false }) },
    /not an answer of a runner/,
  ],
  ['is no longer a runner', { 'agent/status': (_, response) => void response.writeHead(404).end('<html>') }, /answered 404/],
  ['no longer accepts the token', { 'agent/status': (_, response) => json(response, 401, {}) }, /401/],
  ['never answers a status call', { 'agent/status': () => {} }, /did not answer|got no answer in time/],
] as readonly (readonly [string, Readonly<Record<string, Handler>>, RegExp])[])(
  'remote: 409 and no release when the runner %s',
  async (_what, odd, says) => {
    let isOdd = false
    // The launch calls the runner too, so the runner becomes faulty only after the launch.
    const later = Object.fromEntries(
      Object.entries(odd).map(([kind, handler]): [string, Handler] => [
        kind,
        (request, response, runner) => (isOdd ? handler : (usual[kind] as Handler))(request, response, runner),
      ]),
    )
    await using runner = await FakeRunner.start(later)
    await using server = await startServer(['--remote-url', runner.url])
    const id = await server.launch(body())
    await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    isOdd = true
    const answer = await server.call('DELETE', `/api/agents/${id}?force=true&timeout=1500`)
    expect(answer).toMatchObject({ status: 409, body: { code: 'not_released', message: expect.stringMatching(says) } })
    isOdd = false
    expect((await server.call('DELETE', `/api/agents/${id}`)).status).toBe(204)
  },
)
