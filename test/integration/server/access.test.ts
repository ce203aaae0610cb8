import { readdirSync } from 'node:fs'
import { type IncomingHttpHeaders, request as open } from 'node:http'
import { connect, type Socket } from 'node:net'
import { pino } from 'pino'
import { io, type ManagerOptions } from 'socket.io-client'
import { describe, expect, it } from 'vitest'
import { createApp } from '../../../src/interfaces/http/app.ts'
import { ebb, temporaryHome } from '../../support/home.ts'
import { type Json, remember, startServer, type TestServer } from '../../support/server.ts'
import { agentProcesses, useServer } from '../../support/shared-server.ts'

const server = useServer()
const unknown = '6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11'
const sleeper = { type: 'command', prompt: '', configuration: { command: ['sleep', '1000'] } }
const json = { 'content-type': 'application/json' }
const token = 'a-token-of-this-test'
const bearer = { authorization: `Bearer ${token}` }

interface Question {
  readonly method?: string
  readonly path?: string
  /** `host: undefined` sends none. */
  readonly headers?: Readonly<Record<string, string | undefined>>
  readonly body?: string
  /** Nothing but the head is sent. */
  readonly isUnfinished?: boolean
}

interface Told {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Json
}

/** As fetch, but every header is ours to say; a browser would not let a page, and a page's browser is what is played here. */
function ask(url: string, { method = 'GET', path = '/api/health', headers = {}, body, isUnfinished }: Question = {}): Promise<Told> {
  const { hostname, port, host } = new URL(url)
  const said = Object.entries({ host, ...headers }).filter((one): one is [string, string] => one[1] !== undefined)
  return new Promise((resolve, reject) => {
    const call = open(
      { host: hostname.replaceAll(/[[\]]/g, ''), port, method, path, headers: Object.fromEntries(said), setHost: false, agent: false },
      (answer) => {
        const parts: Buffer[] = []
        answer.on('data', (part: Buffer) => parts.push(part))
        answer.on('error', reject)
        answer.on('end', () => {
          const text = Buffer.concat(parts).toString('utf8')
          call.destroy()
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: text.startsWith('{') ? JSON.parse(text) : text })
        })
      },
    )
    call.setTimeout(10_000, () => call.destroy(new Error(`${method} ${path} was not answered.`)))
    call.on('error', reject)
    call.on('upgrade', (answer, socket) => {
      socket.destroy()
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: undefined })
    })
    if (isUnfinished) call.flushHeaders()
    else call.end(body)
  })
}

/** The bytes as they are; resolves with everything that came until the other side closed. */
function say(url: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(text))
    socket.setTimeout(10_000, () => socket.destroy(new Error('It was not answered.')))
    socket.on('data', (part) => parts.push(part))
    socket.on('error', reject)
    socket.on('close', () => resolve(Buffer.concat(parts).toString('utf8')))
  })
}

/** Every call that the server's own document knows, about things that exist. */
async function everyCall(to: TestServer, agentId: string, headers: Record<string, string> = {}): Promise<readonly Required<Question>[]> {
  const { paths } = (await to.call('GET', '/api/openapi.json', { headers })).body
  const calls = Object.entries<Json>(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({
      method: method.toUpperCase(),
      path: path.replace('{id}', agentId).replace('{requestId}', 'r'),
      headers: {},
      body: method === 'post' ? JSON.stringify({ ...sleeper, id: 'r2', scope: 'all', schedule: [] }) : '',
      isUnfinished: false,
    })),
  )
  expect(calls.length).toBeGreaterThan(20)
  return calls
}

/** What refused calls would have changed. */
async function state(to: TestServer, headers: Record<string, string> = {}): Promise<Json> {
  const get = async (path: string): Promise<Json> => (await to.call('GET', path, { headers })).body
  return {
    agents: (await get('/api/agents')).map(({ id, status }: Json) => [id, status]),
    status: await get('/api/cleanup/status'),
    history: (await get('/api/cleanup/history')).map(({ id }: Json) => id),
    processes: agentProcesses(to.home),
  }
}

const nobody = { agents: [], status: { isClean: true, agentCount: 0, runningProcesses: 0, activeSubscriptions: 0 }, processes: [] }
const refusal = (status: number, code: string): object => ({
  status,
  body: { statusCode: status, code, message: expect.stringMatching(/^[A-Z].*\.$/s) },
})
const forbidden = refusal(403, 'forbidden')
const handshake = (transport: string): Question => ({
  path: `/socket.io/?EIO=4&transport=${transport}`,
  headers:
    transport === 'polling'
      ? {}
      : { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' },
})

describe('a web page of another origin', () => {
  it('gets nothing from any call, by any method or content type, and changes nothing', async () => {
    const id = await server.command(['sleep', '1000'], { requestId: 'r' })
    const before = await state(server)
    const origin = 'http://evil.example'
    const calls = await everyCall(server, id)
    const tried = calls.flatMap((call) => [
      { ...call, headers: { origin } },
      { ...call, headers: { origin, 'content-type': 'text/plain' } },
      { ...call, headers: { origin, ...json } },
      { ...call, method: 'OPTIONS', body: '', headers: { origin, 'access-control-request-method': call.method } },
    ])
    const answers = await Promise.all(tried.map((call) => ask(server.url, call)))
    for (const [index, answer] of answers.entries()) {
      expect(answer, JSON.stringify(tried[index])).toMatchObject(forbidden)
      expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-control'))).toEqual([])
    }
    expect(await state(server)).toEqual(before)
  })

  it('is refused on HTTP and on sockets, however near its origin looks', async () => {
    const { host } = new URL(server.url)
    // A sandboxed frame says null; the others are another server of this machine, a file, an extension, and near misses.
    const origins = [
      'https://evil.example',
      'null',
      'http://localhost:3000',
      'http://localhost',
      'file://',
      'chrome-extension://abcdefgh',
      '',
    ]
    origins.push(`http://${host}.evil.example`, `http://evil.example/#http://${host}`, `ws://${host}`)
    const body = JSON.stringify(sleeper)
    for (const origin of origins) {
      const calls: Question[] = [
        {},
        { method: 'POST', path: '/api/agents', headers: json, body },
        { method: 'POST', path: '/api/agents', headers: { 'content-type': 'text/plain' }, body },
        handshake('polling'),
        handshake('websocket'),
      ]
      for (const answer of await Promise.all(calls.map((call) => ask(server.url, { ...call, headers: { ...call.headers, origin } }))))
        expect(answer, origin).toMatchObject(forbidden)
    }
    expect(await state(server)).toMatchObject(nobody)
  })

  it('of our own origin may call and connect', async () => {
    const { port } = new URL(server.url)
    for (const host of [`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`]) {
      const origin = `http://${host}`
      expect(await ask(server.url, { headers: { host, origin } })).toMatchObject({ status: 200 })
      expect((await ask(server.url, { ...handshake('polling'), headers: { host, origin } })).status).toBe(200)
      expect(
        (await ask(server.url, { ...handshake('websocket'), headers: { ...handshake('websocket').headers, host, origin } })).status,
      ).toBe(101)
    }
  })

  it('gets nothing out of a session that somebody else has opened', async () => {
    const opened = (await ask(server.url, handshake('polling'))).body as string
    const { sid } = JSON.parse(opened.slice(1)) as { sid: string }
    const path = `/socket.io/?EIO=4&transport=polling&sid=${sid}`
    const headers = { origin: 'http://evil.example' }
    expect(await ask(server.url, { path, headers })).toMatchObject(forbidden)
    expect(await ask(server.url, { method: 'POST', path, headers, body: '40' })).toMatchObject(forbidden)
    expect(await ask(server.url, { path, headers: { host: 'evil.example' } })).toMatchObject(forbidden)
    expect(await ask(server.url, { method: 'POST', path, body: '40' })).toMatchObject({ status: 200, body: 'ok' })
  })
})

describe('a name that was rebound to this machine', () => {
  it('is refused on HTTP and on sockets', async () => {
    const { port } = new URL(server.url)
    const hosts = ['evil.example', `evil.example:${port}`, `localhost.evil.example:${port}`, 'evil-localhost', '127.0.0.1.evil.example', '']
    hosts.push(`127.0.0.2:${port}`, `0.0.0.0:${port}`, '[::]', '::1', '2130706433', '0x7f.0.0.1', '127.1', `localhost:${port}:${port}`)
    hosts.push('localhost:evil', 'localhost@evil.example', 'localhost, evil.example')
    const body = JSON.stringify(sleeper)
    for (const host of hosts) {
      const calls: Question[] = [
        {},
        { path: '/metrics' },
        { path: '/nowhere' },
        { path: '/api/agents/%zz' },
        handshake('polling'),
        handshake('websocket'),
        { method: 'POST', path: '/api/agents', headers: json, body },
        // Its own origin is that name, too.
        { method: 'POST', path: '/api/agents', headers: { ...json, origin: `http://${host}` }, body },
        { method: 'POST', path: '/api/test/reset-environment' },
      ]
      for (const answer of await Promise.all(calls.map((call) => ask(server.url, { ...call, headers: { ...call.headers, host } }))))
        expect(answer, host).toMatchObject(forbidden)
    }
    expect(await state(server)).toMatchObject(nobody)
  })

  it('is refused when it is not said at all', async () => {
    expect(await ask(server.url, { headers: { host: undefined } })).toMatchObject(forbidden)
    expect(await say(server.url, 'GET /api/health HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1.1 403 .*"code":"forbidden"/s)
  })

  it('is not mistaken for one of our own, at whatever port a tunnel has put us', async () => {
    const { port } = new URL(server.url)
    for (const name of ['localhost', 'LocalHost', '127.0.0.1', '[::1]'])
      for (const host of [name, `${name}:${port}`, `${name}:1`]) {
        expect((await ask(server.url, { headers: { host } })).status).toBe(200)
        expect((await ask(server.url, { ...handshake('polling'), headers: { host } })).status).toBe(200)
      }
    expect((await ask(`http://[::1]:${port}`)).status).toBe(200)
  })
})

describe('a server with a token', () => {
  it('shows nothing and does nothing without it', async () => {
    await using own = await startServer(['--token', token])
    const id = (await own.call('POST', '/api/agents', { body: { ...sleeper, requestId: 'r' }, headers: bearer })).body.id
    const before = await state(own, bearer)
    const wrong: Record<string, string>[] = [
      {},
      { authorization: token },
      { authorization: `Basic ${Buffer.from(`x:${token}`).toString('base64')}` },
      { authorization: 'Bearer ' },
      { authorization: `Bearer ${token.slice(0, -1)}` },
      { authorization: `Bearer ${token}x` },
      { authorization: `Bearer ${token.toUpperCase()}` },
      { cookie: `token=${token}`, 'x-token': token },
    ]
    const calls = await everyCall(own, id, bearer)
    expect(calls.map(({ path }) => path)).toEqual(expect.arrayContaining(['/metrics', '/api/openapi.json', '/api/health']))
    for (const call of [...calls, { path: '/nowhere' }, { path: '/api/agents/%zz' }, { method: 'OPTIONS', path: '/api/agents' }]) {
      const answers = wrong.map((headers) => ask(own.url, { ...call, headers: { ...json, ...headers } }))
      const path = `${call.path}?token=${token}&access_token=${token}`
      for (const answer of await Promise.all([...answers, ask(own.url, { ...call, path, headers: json })]))
        expect(answer, JSON.stringify(call)).toMatchObject(refusal(401, 'unauthorized'))
    }
    expect(await state(own, bearer)).toEqual(before)
    expect((await ask(own.url, { headers: { authorization: `bearer ${token}` } })).status).toBe(200)
    expect((await ask(own.url, { path: '/metrics', headers: bearer })).status).toBe(200)
    expect((await ask(own.url, { method: 'HEAD' })).status).toBe(401)
  })

  it('tells a socket nothing without it', async () => {
    await using own = await startServer(['--token', token])
    const dial = (options: Partial<ManagerOptions> & { auth?: object }): ReturnType<typeof remember> =>
      remember(io(own.url, { transports: ['websocket'], reconnection: false, forceNew: true, ...options }))
    const refused = [
      dial({}),
      dial({ transports: ['polling'] }),
      dial({ auth: { token: 'wrong' } }),
      dial({ auth: { token: [token] } }),
      dial({ auth: { token: '' } }),
      dial({ query: { token } }),
      dial({ extraHeaders: { authorization: 'Bearer wrong' } }),
    ]
    for (const client of refused) {
      expect((await client.event('connect_error')).message).toMatch(/token/)
      client.socket.emit('subscribe', { agentId: unknown })
    }
    const welcome = [dial({ auth: { token } }), dial({ auth: { token }, transports: ['polling'] }), dial({ extraHeaders: bearer })]
    for (const client of welcome) await client.event('connected')
    await own.call('POST', '/api/agents', { body: sleeper, headers: bearer })
    for (const client of welcome) await client.event('agent:created')
    expect(refused.flatMap(({ events }) => events.map(({ name }) => name))).toEqual(refused.map(() => 'connect_error'))
    for (const client of [...refused, ...welcome]) client.socket.disconnect()
  })

  it('is the only one that others than this machine may reach', async () => {
    for (const [words, env] of [
      [['--host', '0.0.0.0'], {}],
      [['--host', '127.0.0.1.example'], {}],
      [[], { EBB_HOST: '0.0.0.0' }],
    ] as const) {
      const home = temporaryHome()
      const { code, stderr, stdout } = await ebb(['serve', '--port', '0', ...words], { home, env })
      expect([code, stdout.toString()]).toEqual([2, ''])
      expect(stderr).toMatch(/^ebb: .*--token.*\.\n$/)
      expect(readdirSync(home)).toEqual([])
    }
    await using own = await startServer(['--host', '0.0.0.0', '--token', token])
    const url = own.url.replace('0.0.0.0', '127.0.0.1')
    expect((await ask(url, { headers: bearer })).status).toBe(200)
    expect(await ask(url)).toMatchObject(refusal(401, 'unauthorized'))
    expect(await ask(url, { headers: { ...bearer, host: '192.0.2.1' } })).toMatchObject(forbidden)
  })
})

it('another address of this machine is listened on as it was said, and needs no token', async () => {
  await using own = await startServer(['--host', '127.0.0.2'])
  expect(own.url).toMatch(/^http:\/\/127\.0\.0\.2:\d+$/)
  expect((await ask(own.url)).status).toBe(200)
})

it('names and pages that were allowed may call, connect and ask before; no other ones', async () => {
  const words = ['--allow-host', 'ebb.example', '--allow-host', 'other.example:8443', '--allow-origin', 'http://App.example:3000/']
  await using own = await startServer([...words, '--token', token])
  const statusOf = async (headers: Record<string, string>, more: Question = {}): Promise<number> =>
    (await ask(own.url, { ...more, headers: { ...more.headers, ...headers } })).status
  for (const host of ['ebb.example', 'EBB.example:99', 'other.example:8443']) {
    expect(await statusOf({ ...bearer, host })).toBe(200)
    expect(await statusOf({ host }, handshake('polling'))).toBe(200)
  }
  for (const host of ['other.example', 'other.example:8444', 'x.ebb.example']) expect(await statusOf({ ...bearer, host })).toBe(403)

  const origin = 'http://app.example:3000'
  const shared = { 'access-control-allow-origin': origin, 'access-control-allow-credentials': 'true', vary: 'Origin' }
  expect(await ask(own.url, { headers: { ...bearer, origin } })).toMatchObject({ status: 200, headers: shared })
  expect(await ask(own.url, { headers: { origin } })).toMatchObject({ status: 401, headers: shared })
  // A browser asks without the token, which it may only send when the answer says so.
  for (const path of ['/api/agents', '/socket.io/?EIO=4&transport=polling'])
    expect(await ask(own.url, { method: 'OPTIONS', path, headers: { origin, 'access-control-request-method': 'POST' } })).toMatchObject({
      status: 204,
      headers: {
        ...shared,
        'access-control-allow-methods': expect.stringContaining('DELETE'),
        'access-control-allow-headers': expect.stringMatching(/Authorization.*Content-Type.*X-Ebb-Namespace/),
      },
      body: '',
    })
  const { path = '', headers } = handshake('polling')
  expect(await ask(own.url, { path, headers: { ...headers, origin } })).toMatchObject({ status: 200, headers: shared })
  for (const transport of ['polling', 'websocket']) {
    const extra = { auth: { token }, extraHeaders: { origin }, transports: [transport], reconnection: false, forceNew: true }
    const client = remember(io(own.url, extra))
    await client.event('connected')
    client.socket.disconnect()
  }
  for (const other of ['http://app.example:3001', 'https://app.example:3000', 'http://app.example', 'http://x.app.example:3000']) {
    const answer = await ask(own.url, { headers: { ...bearer, origin: other } })
    expect(answer).toMatchObject(forbidden)
    expect(answer.headers['access-control-allow-origin']).toBeUndefined()
    expect(await statusOf({ origin: other }, handshake('polling'))).toBe(403)
    expect(await statusOf({ origin: other }, { method: 'OPTIONS', path: '/socket.io/?EIO=4&transport=polling' })).toBe(403)
  }
  expect(await state(own, bearer)).toMatchObject(nobody)
})

describe('an id in an address', () => {
  it('that is a path, a NUL, too long or only looks like one is malformed, on every route', async () => {
    const ids = [
      '..%2F..%2Fetc%2Fpasswd',
      '%2e%2e%2fx',
      '%2e%2e%5cx',
      '%00',
      `${unknown}%00`,
      `${unknown}%0a`,
      `%20${unknown}`,
      'x'.repeat(10_000),
    ]
    ids.push(`{${unknown}}`, unknown.replaceAll('-', ''), unknown.replace('6f', '6g'), `${unknown}0`, unknown.slice(1), 'constructor', '-1')
    ids.push('%E2%80%AE', '%F0%9F%92%A9', "1'%20OR%20'1'='1", '*', unknown.replace('-4f6a-', '-0f6a-'))
    const { paths } = await server.get('/api/openapi.json')
    for (const [path, methods] of Object.entries<Json>(paths)) {
      if (!path.includes('{id}')) continue
      for (const method of Object.keys(methods))
        for (const id of ids) {
          const answer = await ask(server.url, { method: method.toUpperCase(), path: path.replace('{id}', id) })
          expect(answer, `${method} ${path} ${id.slice(0, 40)}`).toMatchObject(refusal(400, 'invalid_id'))
        }
    }
    // The dots are not walked: that is another address, and there is nothing.
    for (const path of ['/api/agents/../health', '/api/agents/./x/y', '/api//health', '/api/requests/../../metrics'])
      expect(await ask(server.url, { path })).toMatchObject(refusal(404, 'not_found'))
    for (const path of ['/api/agents/%', '/api/agents/%zz', '/api/agents/%c0%af'])
      expect(await ask(server.url, { path }), path).toMatchObject({ status: 400, body: { statusCode: 400, message: expect.any(String) } })
    expect(await ask(server.url, { path: `/api/agents/${unknown}` })).toMatchObject(refusal(404, 'agent_not_found'))
  })
})

describe('a body', () => {
  const post = (body: string, headers: Record<string, string> = json, path = '/api/agents'): Promise<Told> =>
    ask(server.url, { method: 'POST', path, headers, body })

  it('of another content type is refused, whatever is in it', async () => {
    const types = ['text/plain', 'text/plain; charset=utf-8', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']
    types.push('text/json', 'application/jsonp', 'application/json-patch+json', 'application/xml', 'a b c;;', '*/*')
    for (const type of types)
      expect(await post(JSON.stringify(sleeper), { 'content-type': type }), type).toMatchObject(refusal(415, 'unsupported_media'))
    expect(await post(JSON.stringify(sleeper), {})).toMatchObject(refusal(415, 'unsupported_media'))
    expect(await state(server)).toMatchObject(nobody)
    for (const type of ['application/json; charset=utf-8', 'APPLICATION/JSON'])
      expect(await post('{"scope":"all"}', { 'content-type': type }, '/api/cleanup'), type).toMatchObject({ status: 200 })
  })

  it('that is no JSON is refused', async () => {
    const cut = JSON.stringify(sleeper).slice(0, -1)
    for (const body of ['{', cut, `${cut}}}`, 'type=command', '{"type":NaN}', "{'type':'command'}", '\0', '"', '{"prompt":"\n"}'])
      expect(await post(body), body).toMatchObject(refusal(400, 'invalid_request'))
    expect(await post(JSON.stringify(sleeper), { ...json, 'content-encoding': 'gzip' })).toMatchObject({
      status: expect.toBeOneOf([400, 201]),
    })
    await server.post('/api/test/reset-environment')
    expect(await state(server)).toMatchObject(nobody)
  })

  it('cannot reach the prototypes of the server', async () => {
    const poison = [
      '"__proto__":{"polluted":1,"type":"command"}',
      '"constructor":{"prototype":{"polluted":1}}',
      '"\\u005f_proto__":{"polluted":1}',
    ]
    for (const key of poison)
      for (const body of [
        `{${key}}`,
        `{"type":"synthetic","prompt":"",${key}}`,
        `{"type":"synthetic","prompt":"","configuration":{${key}}}`,
        `{"type":"synthetic","prompt":"","configuration":{"metadata":{${key}}}}`,
        `{"type":"synthetic","prompt":"","configuration":{"env":{${key}}}}`,
      ])
        expect(await post(body), body).toMatchObject(refusal(400, 'invalid_request'))
    expect(await state(server)).toMatchObject(nobody)
    expect(await ask(server.url, { path: '/api/agents?__proto__[limit]=0&constructor=x' })).toMatchObject({ status: 200 })
    expect(JSON.stringify(await server.get('/api/health'))).not.toContain('polluted')
  })

  it('with fields that nobody knows is taken without them', async () => {
    const { status, body } = await post(JSON.stringify({ ...sleeper, id: unknown, status: 'completed', admin: 'yes-please' }))
    expect([status, body.id === unknown]).toEqual([201, false])
    const agent = await server.get(`/api/agents/${body.id}`)
    expect(agent.status).toBe('running')
    expect(JSON.stringify(agent)).not.toContain('yes-please')
  })

  it('that is nested too deeply for anybody is refused, and the place is named', async () => {
    const deep = (levels: number): string => `${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`
    const launch = (metadata: string): string => `{"type":"synthetic","prompt":"","configuration":{"metadata":{"a":${metadata}}}}`
    const schedule = `{"type":"synthetic","prompt":"","configuration":{"schedule":[{"delay":0,"type":"message","data":{"a":${deep(5_000)}}}]}}`
    for (const [body, path] of [
      [launch(deep(102)), 'configuration.metadata'],
      [launch(deep(200_000)), 'configuration.metadata'],
      [schedule, 'configuration.schedule.0.data'],
    ] as const)
      expect(await post(body)).toMatchObject({ ...refusal(400, 'invalid_request'), body: { details: [{ path }] } })
    expect(await state(server)).toMatchObject(nobody)
    expect(await post(launch(deep(90)))).toMatchObject({ status: 201 })
  })

  it('with ten thousand faults is answered with the first of them', async () => {
    const schedule = Array.from({ length: 10_000 }, () => ({ delay: -1, type: 'x' }))
    const { status, body } = await post(JSON.stringify({ type: 'synthetic', prompt: '', configuration: { schedule } }))
    expect([status, body.details[0].path]).toEqual([400, 'configuration.schedule.0.delay'])
    expect(JSON.stringify(body).length).toBeLessThan(10_000)
  })

  it('is taken up to its limit and refused above it, a prompt too', async () => {
    const padded = (value: object, bytes: number): string => JSON.stringify(value).padEnd(bytes)
    const launch = (length: number): string => JSON.stringify({ type: 'synthetic', prompt: 'é'.repeat(length) })
    expect(await post(launch(1_048_577))).toMatchObject({ ...refusal(400, 'invalid_request'), body: { details: [{ path: 'prompt' }] } })
    expect(await post(JSON.stringify({ type: 'synthetic', prompt: 'x'.repeat(5_000_000) }))).toMatchObject(refusal(400, 'invalid_request'))
    for (const [path, bytes] of [
      ['/api/agents', 8_388_608],
      ['/api/cleanup', 1_048_576],
      ['/api/test/agents/synthetic', 33_554_432],
    ] as const) {
      // What is announced is refused before it is sent, what is not announced when it has become too much.
      const headers = { ...json, 'content-length': String(bytes + 1) }
      expect(await ask(server.url, { method: 'POST', path, headers, isUnfinished: true }), path).toMatchObject(refusal(413, 'too_large'))
    }
    const chunk = `${(1_048_577).toString(16)}\r\n${' '.repeat(1_048_577)}\r\n`
    const head = 'POST /api/cleanup HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n'
    expect(await say(server.url, head + chunk)).toMatch(/^HTTP\/1.1 413 .*"code":"too_large"/s)
    expect(await state(server)).toMatchObject(nobody)
    expect(await post(padded({ scope: 'all' }, 1_048_576), json, '/api/cleanup')).toMatchObject({ status: 200 })
    expect(await post(padded({ type: 'synthetic', prompt: 'x' }, 8_388_608))).toMatchObject({ status: 201 })
    expect(await post(launch(1_048_576))).toMatchObject({ status: 201 })
  })

  it('with a working directory that is none is refused', async () => {
    for (const workingDirectory of [
      '/no/such/folder',
      '/etc/passwd',
      'no/such',
      '../no-such',
      '~',
      '$HOME',
      'file:///tmp',
      '/tmp/\u0000',
      '',
    ])
      expect(
        await post(JSON.stringify({ ...sleeper, configuration: { ...sleeper.configuration, workingDirectory } })),
        workingDirectory,
      ).toMatchObject({ status: 400, body: { code: expect.toBeOneOf(['launch_refused', 'invalid_request']) } })
    expect(await state(server)).toMatchObject(nobody)
  })
})

describe('what is no call of ours', () => {
  it('is answered in the one shape of errors', async () => {
    for (const path of ['/', '/api', '/api/', '/api/nothing', '/api/agents/active/x', '/index.html', '/API/health', '/api/health/'])
      expect(await ask(server.url, { path }), path).toMatchObject(refusal(404, 'not_found'))
    for (const method of ['PUT', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'DELETE', 'LINK'])
      expect(await ask(server.url, { method, path: '/api/agents' }), method).toMatchObject(refusal(404, 'not_found'))
    for (const [text, status] of [
      ['HELLO\r\n\r\n', 400],
      ['GET /api/health HTTP/9.9\r\n\r\n', 400],
      ['BREW /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n', 400],
      ['POST /api/agents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}', 400],
      ['POST /api/agents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}', 400],
      [`GET /api/agents/${'x'.repeat(20_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`, 431],
      [`GET /api/agents HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
    ] as const) {
      const [head = '', body = ''] = (await say(server.url, text)).split('\r\n\r\n')
      expect(head, text.slice(0, 60)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
      const code = status === 431 ? 'headers_too_large' : 'invalid_request'
      expect(JSON.parse(body)).toEqual({ statusCode: status, code, message: expect.stringMatching(/\.$/) })
    }
    expect(await state(server)).toMatchObject(nobody)
  })

  it('with HEAD is answered as GET is, without a body', async () => {
    for (const [path, status] of [
      ['/api/health', 200],
      ['/api/agents', 200],
      ['/metrics', 200],
      [`/api/agents/${unknown}`, 404],
      ['/nowhere', 404],
    ] as const)
      expect(await ask(server.url, { method: 'HEAD', path }), path).toMatchObject({ status, body: '' })
  })

  it('that offers another protocol is answered in this one', async () => {
    for (const upgrade of ['h2c', 'websocket', 'TLS/1.3'])
      expect(await ask(server.url, { headers: { connection: 'Upgrade', upgrade } }), upgrade).toMatchObject({
        status: 200,
        body: { status: 'ok' },
      })
  })
})

it('callers that never finish what they say hold up nobody, not even the end of the server', async () => {
  await using own = await startServer()
  const { port } = new URL(own.url)
  const begun = [
    'POST /api/agents HTTP/1.1\r\nHost: localhost\r\n',
    'POST /api/agents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"type":"comm',
    `POST /api/agents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"ty`,
    '',
  ]
  const slow = await Promise.all(Array.from({ length: 100 }, (_, index) => begin(Number(port), begun[index % begun.length] ?? '')))
  const startedMs = performance.now()
  expect((await ask(own.url)).status).toBe(200)
  expect(performance.now() - startedMs).toBeLessThan(5_000)
  expect(await state(own)).toMatchObject(nobody)
  const gone = slow.map((socket) => new Promise((resolve) => socket.once('close', resolve)))
  const askedMs = performance.now()
  await own.stop()
  await Promise.all(gone)
  expect(performance.now() - askedMs).toBeLessThan(7_000)
  expect((await own.ebb.ended).code).toBe(0)
})

it('a call that never comes to its end is given up one day', async () => {
  // Node looks only every 30 s, so this is about the setting.
  const nothing: Json = new Proxy(() => {}, { get: () => nothing })
  const logger = pino({ level: 'silent' })
  const app = createApp({
    ...nothing,
    control: nothing,
    catalogue: nothing,
    access: nothing,
    vitals: nothing,
    mcp: { mount: () => {} },
    hasTestRoutes: false,
    logger,
  })
  expect(app.server.requestTimeout).toBeGreaterThan(0)
  expect(app.server.requestTimeout).toBeLessThanOrEqual(300_000)
  expect(app.server.headersTimeout).toBeGreaterThan(0)
  await app.close()
})

function begin(port: number, text: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text || '\r\n', () => resolve(socket)))
    socket.on('error', reject)
    socket.resume()
  })
}
