import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { temporaryHome } from '../../support/home.ts'
import { leftInHome } from '../../support/ledger-file.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { survivors, waitUntil } from '../../support/world.ts'

/** Runners that are broken, or wish us ill: whatever they answer, the control plane stays up, bounded and honest. */

type Handler = (request: IncomingMessage, response: ServerResponse, runner: FakeRunner) => void

class FakeRunner implements AsyncDisposable {
  readonly #server: Server
  readonly calls: string[] = []
  isAlive = true
  /** The stream that is open. */
  streaming: ServerResponse | undefined

  private constructor(server: Server) {
    this.#server = server
  }

  /** Answers as the runner protocol says, but for the calls that are given. */
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

/** A foreign one: it has ids of its own, and no word of its installation. */
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

async function over(server: TestServer, id: string): Promise<Json> {
  await server.get(`/api/agents/${id}/status?wait=20000`)
  return await server.get(`/api/agents/${id}`)
}

/** The runner protocol has a status for it, and no body. */
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
  ['with words', {}],
  ['without a word', { 'agent/stop': unknownId(), 'agent/status': unknownId() }],
  ['with few words', { 'agent/stop': unknownId({ error: 'not found' }), 'agent/status': unknownId({ error: 'not found' }) }],
])('a runner that is not ours, and speaks the runner protocol alone, is good enough: its 404 is %s', async (_how, odd) => {
  await using runner = await FakeRunner.start(odd)
  await using server = await startServer(['--remote-url', runner.url])
  const id = await server.launch(body())
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
  expect(runner.calls).toContain(`POST /agent/stop/${ownId}`)
  expect((await server.call('DELETE', `/api/agents/${id}`)).status).toBe(204)
})

it('a runner that stops an agent and leaves its stream open is not waited for without end', async () => {
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
  expect((await server.get<Json[]>(`/api/agents/${id}/messages?since=1`)).map((one) => one.content)).toEqual(['here'])
})

it.each([
  ['says complete and then goes', stream('data: one\n\n', 'event: complete\ndata: {}\n\n'), { status: 'completed', exitCode: 0 }, ['one']],
  [
    'says error',
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
] as const)('a runner that %s', async (_what, handler, end, lines) => {
  await using runner = await FakeRunner.start({ 'agent/stream': handler })
  await using server = await startServer(['--remote-url', runner.url])
  const id = await server.launch(body())
  expect(await over(server, id)).toMatchObject(end)
  expect((await server.get<Json[]>(`/api/agents/${id}/messages?since=1`)).map((one) => one.content)).toEqual(lines)
})

it('a runner that says error has not completed its agent, though the agent left with 0 and was content', async () => {
  await using runner = await FakeRunner.start({
    'agent/stream': stream('data: one\n\n', 'event: error\ndata: {"error": "Its upload failed."}\n\n'),
    'agent/status': (request, response) =>
      request.url?.endsWith(ownId)
        ? json(response, 200, { agent_id: ownId, process_alive: false, exit_code: 0, uptime: 1 })
        : json(response, 404, { error: 'Agent not found' }),
  })
  await using server = await startServer(['--remote-url', runner.url])
  const id = await server.launch(body())
  expect(await over(server, id)).toMatchObject({
    status: 'failed',
    exitCode: 0,
    error: { name: 'runner_error', message: 'Its upload failed.' },
  })
})

it('a token is shown to the runner that it was set for, and to nobody else', { timeout: 120_000 }, async () => {
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
  // Its sentinel has the settings with which it was launched; here it does nothing.
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
  // Its deletion was asked for, and its recovery has done it.
  expect((await again.call('GET', `/api/agents/${id}`)).status).toBe(404)
  expect(await again.get('/api/cleanup/status')).toMatchObject({ stuck: [], leaks: [] })
  expect(new Set(shown)).toEqual(new Set(['Bearer the-first-token']))
})

it.each([
  ['answers 500', { 'agent/stream': (_, response) => json(response, 500, { message: 'broken' }) }, /answered 500: broken\.$/],
  ['gives no id', { 'agent/stream': (_, response) => void response.writeHead(200).write('data: x\n\n') }, /no valid agent id/],
  [
    'gives an id that cannot be used',
    { 'agent/stream': (_, response) => void response.writeHead(200, { 'x-agent-id': 'a b' }).write('\n') },
    /no valid agent id/,
  ],
  [
    'has headers without end',
    { 'agent/stream': (_, response) => void response.writeHead(200, { x: 'y'.repeat(100_000) }).end() },
    /cannot be reached/,
  ],
  ['answers with what is not HTTP', { 'agent/stream': (request) => void request.socket.end('hello\r\n\r\n') }, /cannot be reached/],
  ['hangs up', { 'agent/stream': (request) => void request.socket.destroy() }, /cannot be reached/],
  [
    'has no status',
    { 'agent/status': (request, response) => json(response, 404, { message: `Cannot GET ${request.url}` }) },
    /answered 404: Cannot GET .*\. Nothing was launched/,
  ],
  ['says a health that is none', { health: (_, response) => json(response, 200, ['ok']) }, /not an answer of a runner/],
  ['never says how it is', { health: () => {} }, /did not answer within 4 s/],
  ['has a health without end', { health: (_, response) => endless(response) }, /longer than/],
] as readonly (readonly [string, Readonly<Record<string, Handler>>, RegExp])[])(
  'a runner that %s launches nothing',
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

it('a runner whose line has no end is cut off at the limit of the log, and its line is not kept in memory', {
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
  await waitUntil(async () => (await server.get(`/api/agents/${id}`)).status === 'failed', 60_000, 'it was ended')
  expect(await server.get(`/api/agents/${id}`)).toMatchObject({ error: { name: 'output_limit' } })
  expect((await server.get('/api/health')).memoryUsage.rss).toBeLessThan(400_000_000)
})

it.each([
  [
    'says that it stopped, and did not',
    { 'agent/stop': (_, response) => json(response, 200, { status: 'stopped', agent_id: ownId }) },
    /alive/,
  ],
  ['answers a stop with 500', { 'agent/stop': (_, response) => json(response, 500, {}) }, /answered 500/],
  ['answers a look with 500', { 'agent/status': (_, response) => json(response, 500, {}) }, /answered 500/],
  [
    'answers a look about another agent',
    { 'agent/status': (_, response) => json(response, 200, { agent_id: 'x', process_alive: false }) },
    /not an answer of a runner/,
  ],
  ['is no runner any more', { 'agent/status': (_, response) => void response.writeHead(404).end('<html>') }, /answered 404/],
  ['does not know the token any more', { 'agent/status': (_, response) => json(response, 401, {}) }, /401/],
  ['never answers a look', { 'agent/status': () => {} }, /did not answer|got no answer in time/],
] as readonly (readonly [string, Readonly<Record<string, Handler>>, RegExp])[])(
  'a runner that %s is not believed: 409',
  async (_what, odd, says) => {
    let isOdd = false
    // The launch asks, too.
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
