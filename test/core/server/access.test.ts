import { readdirSync } from 'node:fs'
import { io, type ManagerOptions } from 'socket.io-client'
import { describe, expect, it } from 'vitest'
import { ebb, temporaryHome } from '../../support/home.ts'
import { ask, json, nobody, type Question, refusal, say, sleeper, state, unknown } from '../../support/raw-calls.ts'
import { type Json, remember, startServer, type TestServer } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'

const server = useServer()
const token = 'a-token-of-this-test'
const bearer = { authorization: `Bearer ${token}` }

/** Every call in the server's OpenAPI document, with ids that exist. */
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

const forbidden = refusal(403, 'forbidden')
const handshake = (transport: string): Question => ({
  path: `/socket.io/?EIO=4&transport=${transport}`,
  headers:
    transport === 'polling'
      ? {}
      : { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' },
})

describe('a web page of another origin', () => {
  it('gets 403 from every call, with any method or content type, and changes nothing', async () => {
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

  it('is refused over HTTP and over sockets, however similar its origin looks', async () => {
    const { host } = new URL(server.url)
    // The origin of a sandboxed frame is `null`. The other origins are other servers of this machine, a file, a browser extension, and
    // names that look similar.
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

  it('may call and connect when its origin is the server itself', async () => {
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

  it('cannot use a Socket.IO session that another client has opened', async () => {
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

describe("a host name that is not the server's (DNS rebinding)", () => {
  it('is refused over HTTP and over sockets', async () => {
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
        // The Origin header contains the same refused host name as the Host header.
        { method: 'POST', path: '/api/agents', headers: { ...json, origin: `http://${host}` }, body },
        { method: 'POST', path: '/api/test/reset-environment' },
      ]
      for (const answer of await Promise.all(calls.map((call) => ask(server.url, { ...call, headers: { ...call.headers, host } }))))
        expect(answer, host).toMatchObject(forbidden)
    }
    expect(await state(server)).toMatchObject(nobody)
  })

  it('is refused when it is missing', async () => {
    expect(await ask(server.url, { headers: { host: undefined } })).toMatchObject(forbidden)
    expect(await say(server.url, 'GET /api/health HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1.1 403 .*"code":"forbidden"/s)
  })

  it('is accepted when it is a loopback name, with any port of a tunnel', async () => {
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
  it('refuses every call without the token', async () => {
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
      { environmentTag: `token=${token}`, 'x-token': token },
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

  it('refuses a socket without the token', async () => {
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

  it('may listen on addresses that other machines can reach; a server without a token may not', async () => {
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

it('--host: another loopback address is listened on and needs no token', async () => {
  await using own = await startServer(['--host', '127.0.0.2'])
  expect(own.url).toMatch(/^http:\/\/127\.0\.0\.2:\d+$/)
  expect((await ask(own.url)).status).toBe(200)
})

it('--allow-host, --allow-origin: the given names and origins may call, connect and send preflight requests; no others', async () => {
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
  // A browser sends the preflight without the token: only its answer allows the header.
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
