import { connect, type Socket } from 'node:net'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { createApp } from '../../../src/server/http/app.ts'
import { ask, json, nobody, refusal, say, sleeper, state, type Told, unknown } from '../../support/raw-calls.ts'
import { type Json, startServer } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'

/** Malformed and hostile requests are refused with an error that says why, and change nothing. */

const server = useServer()

describe('an id in the path of a request', () => {
  it('is 400 `invalid_id` on every route when it is a path, a NUL, too long or nearly a UUID', async () => {
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
    // Dots are not resolved, so these paths match no route.
    for (const path of ['/api/agents/../health', '/api/agents/./x/y', '/api//health', '/api/requests/../../metrics'])
      expect(await ask(server.url, { path })).toMatchObject(refusal(404, 'not_found'))
    for (const path of ['/api/agents/%', '/api/agents/%zz', '/api/agents/%c0%af'])
      expect(await ask(server.url, { path }), path).toMatchObject({ status: 400, body: { statusCode: 400, message: expect.any(String) } })
    expect(await ask(server.url, { path: `/api/agents/${unknown}` })).toMatchObject(refusal(404, 'agent_not_found'))
  })
})

describe('a validation error says what to write instead', () => {
  const timeouts: readonly (readonly [value: unknown, sentence: string])[] = [
    ['soon', 'It must be a number, not text.'],
    [null, 'It must be a number, not null.'],
    [1.5, 'It must be a whole number.'],
    [0, 'It must be at least 1.'],
    [2 ** 40, 'It must be at most 2147483647.'],
  ]
  const cases: readonly (readonly [method: string, path: string, body: unknown, place: string, sentence: string])[] = [
    ...timeouts.map(
      ([timeout, says]) => ['POST', '/agents', { ...sleeper, configuration: { timeout } }, 'configuration.timeout', says] as const,
    ),
    ['POST', '/agents', { type: 'command' }, 'prompt', 'It is missing, and must be text.'],
    ['POST', '/agents', { ...sleeper, type: '' }, 'type', 'It must not be empty.'],
    ['POST', '/agents', { ...sleeper, type: 'x'.repeat(101) }, 'type', 'It must have at most 100 characters.'],
    ['POST', '/agents', { ...sleeper, namespace: 'a/b' }, 'namespace', 'It must be a name of letters, digits, and . _ - (at most 100).'],
    ['POST', '/agents', { ...sleeper, parentAgentId: 'me' }, 'parentAgentId', 'It must be a UUID.'],
    ['POST', '/agents', { ...sleeper, configuration: [] }, 'configuration', 'It must be an object, not a list.'],
    ['POST', '/agents', { ...sleeper, configuration: { command: [] } }, 'configuration.command', 'It must not be empty.'],
    [
      'POST',
      '/agents',
      { ...sleeper, configuration: { workingDirectory: 'here' } },
      'configuration.workingDirectory',
      'It must be an absolute path.',
    ],
    [
      'POST',
      '/agents',
      { ...sleeper, configuration: { env: { 'A=secret': '1' } } },
      'configuration.env.A=…',
      'It must be a name without = and NUL.',
    ],
    ['POST', '/cleanup', { scope: 'some' }, 'scope', 'It must be one of single, all.'],
    ['POST', '/reaper/run', { dryRun: 'yes' }, 'dryRun', 'It must be true or false, not text.'],
    ['POST', '/reaper/run', [], '', 'It must be an object, not a list.'],
    ['GET', '/agents?limit=many', undefined, 'limit', 'It must be a number, not text.'],
    ['GET', '/agents?cursor=x', undefined, 'cursor', 'It must be the X-Next-Cursor of an earlier answer.'],
    ['DELETE', `/agents/${unknown}?force=maybe`, undefined, 'force', 'It must be one of 0, 1, true, false.'],
    ['GET', '/agents/x', undefined, 'id', 'It must be a UUID.'],
  ]
  for (const [method, path, body, place, sentence] of cases)
    it(`${method} ${path} ${JSON.stringify(body)?.slice(0, 80)}`, async () => {
      const answer = await server.call<Json>(method, `/api${path}`, { body })
      expect(answer).toMatchObject({ status: 400, body: { details: [{ path: place, message: sentence }] } })
      const named = sentence.replace(/^It/, place === '' ? 'it' : place)
      expect(answer.body.message).toMatch(/^The (body|query|id in the address) is (invalid|malformed): /)
      expect(answer.body.message.endsWith(`: ${named}`)).toBe(true)
    })
})

describe('the body of a request', () => {
  const post = (body: string, headers: Record<string, string> = json, path = '/api/agents'): Promise<Told> =>
    ask(server.url, { method: 'POST', path, headers, body })

  it('is refused with another content type, even when it is JSON', async () => {
    const types = ['text/plain', 'text/plain; charset=utf-8', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']
    types.push('text/json', 'application/jsonp', 'application/json-patch+json', 'application/xml', 'a b c;;', '*/*')
    for (const type of types)
      expect(await post(JSON.stringify(sleeper), { 'content-type': type }), type).toMatchObject(refusal(415, 'unsupported_media'))
    expect(await post(JSON.stringify(sleeper), {})).toMatchObject(refusal(415, 'unsupported_media'))
    expect(await state(server)).toMatchObject(nobody)
    for (const type of ['application/json; charset=utf-8', 'APPLICATION/JSON'])
      expect(await post('{"scope":"all"}', { 'content-type': type }, '/api/cleanup'), type).toMatchObject({ status: 200 })
  })

  it('counts as missing when it is empty, with any content type', async () => {
    for (const type of ['application/x-www-form-urlencoded', 'text/plain', 'a b c;;', 'application/json']) {
      const id = await server.command(['sleep', '1000'])
      const stop = await post('', { 'content-type': type, 'content-length': '0' }, `/api/agents/${id}/stop`)
      expect(stop, type).toMatchObject({ status: 200, body: { success: true, cleanedAgentsCount: 1 } })
      const head = `POST /api/reaper/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type}\r\nConnection: close\r\n\r\n`
      expect(await say(server.url, head), type).toMatch(/^HTTP\/1.1 200 /)
    }
  })

  it('is refused when it is not JSON', async () => {
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

  it('is accepted without its unknown fields', async () => {
    const { status, body } = await post(JSON.stringify({ ...sleeper, id: unknown, status: 'completed', admin: 'yes-please' }))
    expect([status, body.id === unknown]).toEqual([201, false])
    const agent = await server.get(`/api/agents/${body.id}`)
    expect(agent.status).toBe('running')
    expect(JSON.stringify(agent)).not.toContain('yes-please')
  })

  it('is refused when it is nested too deeply, and the error names the place', async () => {
    const deep = (levels: number): string => `${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`
    const launch = (metadata: string): string => `{"type":"synthetic","prompt":"","configuration":{"metadata":{"a":${metadata}}}}`
    const schedule = `{"type":"synthetic","prompt":"","configuration":{"schedule":[{"delay":0,"type":"message","data":{"content":"x","a":${deep(5_000)}}}]}}`
    for (const [body, path] of [
      [launch(deep(102)), 'configuration.metadata'],
      [launch(deep(200_000)), 'configuration.metadata'],
      [schedule, 'configuration.schedule.0.data'],
    ] as const)
      expect(await post(body)).toMatchObject({ ...refusal(400, 'invalid_request'), body: { details: [{ path }] } })
    expect(await state(server)).toMatchObject(nobody)
    expect(await post(launch(deep(90)))).toMatchObject({ status: 201 })
  })

  it('with ten thousand problems is answered with the first of them', async () => {
    const schedule = Array.from({ length: 10_000 }, () => ({ delay: -1, type: 'message' }))
    const { status, body } = await post(JSON.stringify({ type: 'synthetic', prompt: '', configuration: { schedule } }))
    expect([status, body.details[0].path]).toEqual([400, 'configuration.schedule.0.delay'])
    expect(JSON.stringify(body).length).toBeLessThan(10_000)
  })

  it('is accepted up to its size limit and refused above it; so is a prompt', async () => {
    const padded = (value: object, bytes: number): string => JSON.stringify(value).padEnd(bytes)
    const launch = (length: number): string => JSON.stringify({ type: 'synthetic', prompt: 'é'.repeat(length) })
    expect(await post(launch(1_048_577))).toMatchObject({ ...refusal(400, 'invalid_request'), body: { details: [{ path: 'prompt' }] } })
    expect(await post(JSON.stringify({ type: 'synthetic', prompt: 'x'.repeat(5_000_000) }))).toMatchObject(refusal(400, 'invalid_request'))
    for (const [path, bytes] of [
      ['/api/agents', 8_388_608],
      ['/api/cleanup', 1_048_576],
      ['/api/test/agents/synthetic', 33_554_432],
    ] as const) {
      // With a Content-Length the body is refused before it is sent, without one as soon as it is too long.
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

  it('is refused with a bad working directory', async () => {
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

describe('a request for no known route', () => {
  it('is answered with an error in the usual shape', async () => {
    for (const path of [
      '/assets/nothing.js',
      '/api',
      '/api/',
      '/api/nothing',
      '/api/agents/active/x',
      '/index.html',
      '/API/health',
      '/api/health/',
    ])
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

  it('with the method HEAD is answered like GET, without a body', async () => {
    for (const [path, status] of [
      ['/api/health', 200],
      ['/api/agents', 200],
      ['/metrics', 200],
      [`/api/agents/${unknown}`, 404],
      ['/nowhere', 404],
    ] as const)
      expect(await ask(server.url, { method: 'HEAD', path }), path).toMatchObject({ status, body: '' })
  })

  it('with an offer to upgrade the protocol is answered over HTTP/1.1', async () => {
    for (const upgrade of ['h2c', 'websocket', 'TLS/1.3'])
      expect(await ask(server.url, { headers: { connection: 'Upgrade', upgrade } }), upgrade).toMatchObject({
        status: 200,
        body: { status: 'ok' },
      })
  })
})

it('clients that never complete their requests delay neither other clients nor the shutdown of the server', async () => {
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

it('a request that never completes is ended after the request timeout', async () => {
  // Node looks for expired requests only every 30 s, so the test checks the timeout setting instead of waiting.
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
