import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { describe, expect, it } from 'vitest'
import type { RunnerCall } from '../../../src/core/ports/runner.ts'
import { realClock } from '../../../src/host/clock.ts'
import { HttpRunner, HttpRunnerQueries } from '../../../src/placements/remote/runner.ts'
import { temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'

/** The client of a runner, against servers that answer this or that. */

const queries = new HttpRunnerQueries(realClock)
const id = '7b0f9f6e-5a53-4d1c-9d0e-0a1b2c3d4e5f'

interface Listening extends AsyncDisposable {
  readonly port: number
}

async function listening(server: Server): Promise<Listening> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { port, [Symbol.asyncDispose]: async () => await new Promise<void>((resolve) => server.close(() => resolve())) }
}

const at = (url: string): RunnerCall => ({ place: { url }, token: undefined, signal: new AbortController().signal })

const answering =
  (status: number, body: unknown): RequestListener =>
  (request, response) => {
    request.resume()
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

describe('a 404', () => {
  it.each([
    ['of NestJS', { message: `Cannot GET /agent/status/${id}`, error: 'Not Found', statusCode: 404 }],
    ['of Fastify', { message: `Route GET:/agent/status/${id} not found`, error: 'Not Found', statusCode: 404 }],
    ['of Fastify behind a prefix', { message: `Route GET:/api/agent/status/${id} not found`, error: 'Not Found', statusCode: 404 }],
    ['of FastAPI', { detail: 'Not Found' }],
    ['of our own server without the runner', { statusCode: 404, code: 'not_found', message: `There is no GET /agent/status/${id}.` }],
    ['of another agent', { error: 'Not Found', agent_id: 'somebody-else' }],
    ['of nothing', {}],
  ])('%s says nothing of an agent', async (_who, body) => {
    await using server = await listening(createServer(answering(404, body)))
    const url = `http://127.0.0.1:${server.port}`
    await expect(queries.status(at(url), id)).rejects.toThrow(/answered 404/)
    await expect(new HttpRunner(realClock).stop(at(url), id, false)).rejects.toThrow(/answered 404/)
  })

  it.each([
    ['the code', { code: 'agent_not_found', message: 'Nobody.' }],
    ['a sentence', { error: 'Agent not found' }],
    ['a sentence with the id', { detail: `Agent ${id} not found` }],
    ['another sentence', { message: `There is no such agent: ${id}` }],
    ['another code and a sentence', { code: 'NOT_FOUND', message: `The agent with the id ${id} does not exist.` }],
    ['the id of the agent', { error: 'Not Found', agent_id: id }],
  ])('with %s says that there is no such agent', async (_what, body) => {
    await using server = await listening(createServer(answering(404, body)))
    const url = `http://127.0.0.1:${server.port}`
    expect(await queries.status(at(url), id)).toEqual({ is: 'not-found' })
    expect(await new HttpRunner(realClock).stop(at(url), id, false)).toBe('not-found')
  })
})

const runnerHealth = { status: 'ok', timestamp: '2026-01-01T00:00:00.000Z', active_agents: 0 }

describe('a 404 that names no agent', () => {
  const besides = (health: unknown, body: unknown): RequestListener => {
    const [well, absent] = [answering(200, health), answering(404, body)]
    return (request, response) => (request.url === '/health' ? well : absent)(request, response)
  }

  it.each([
    ['without a word', {}],
    ['in the words of FastAPI', { detail: 'Not Found' }],
  ])('%s says that there is no such agent, where a runner is', async (_how, body) => {
    await using server = await listening(createServer(besides(runnerHealth, body)))
    const url = `http://127.0.0.1:${server.port}`
    expect(await queries.status(at(url), id)).toEqual({ is: 'not-found' })
    expect(await new HttpRunner(realClock).stop(at(url), id, false)).toBe('not-found')
  })

  it.each([
    ['where another server is well', { status: 'ok' }, {}],
    ['where a runner names its path', runnerHealth, { message: `Route GET:/agent/status/${id} not found` }],
    ['where a runner names another agent', runnerHealth, { error: 'Not Found', agent_id: 'somebody-else' }],
  ])('says nothing %s', async (_where, health, body) => {
    await using server = await listening(createServer(besides(health, body)))
    await expect(queries.status(at(`http://127.0.0.1:${server.port}`), id)).rejects.toThrow(/answered 404/)
  })
})

it('a runner that is well in other words is well', async () => {
  await using server = await listening(createServer(answering(200, { status: 'healthy', active_agents: 3 })))
  expect(await queries.health(at(`http://127.0.0.1:${server.port}`))).toEqual({ activeAgents: 3 })
})

it('MCP servers are sent as the programs’ own files have them', async () => {
  let sent = ''
  const server = createServer((request, response) => {
    request.on('data', (chunk: Buffer) => {
      sent += chunk.toString('utf8')
    })
    request.on('end', () => response.writeHead(400).end('{}'))
  })
  await using there = await listening(server)
  const servers = [
    { name: 'far', command: 'https://tools.example/mcp', transport: 'http' },
    { name: 'events', command: 'https://tools.example/sse', transport: 'sse' },
    { name: 'near', command: 'notes-server', args: ['-v'], env: { KEY: 'value' } },
  ]
  const order = { agentId: id, type: 'claude-code', prompt: '', configuration: { mcp: { servers } } }
  await expect(new HttpRunner(realClock).stream(at(`http://127.0.0.1:${there.port}`), order)).rejects.toThrow(/answered 400/)
  expect(JSON.parse(JSON.parse(sent).mcp_config)).toEqual({
    mcpServers: {
      far: { type: 'http', url: 'https://tools.example/mcp' },
      events: { type: 'sse', url: 'https://tools.example/sse' },
      near: { type: 'stdio', command: 'notes-server', args: ['-v'], env: { KEY: 'value' } },
    },
  })
})

describe('the certificate of a runner', () => {
  needs('openssl')

  /** Signed by itself, and trusted by this process while the test runs. */
  async function withCertificate(names: string, test: (url: string) => Promise<void>): Promise<void> {
    const folder = temporaryHome()
    const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')]
    const words = [
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      key,
      '-out',
      certificate,
      '-days',
      '2',
      '-subj',
      '/CN=runner',
    ]
    execFileSync('openssl', [...words, '-addext', `subjectAltName=${names}`], { stdio: 'ignore' })
    const before = getCACertificates('default')
    setDefaultCACertificates([...before, readFileSync(certificate, 'utf8')])
    try {
      const files = { key: readFileSync(key), cert: readFileSync(certificate) }
      await using server = await listening(createSecureServer(files, answering(200, { status: 'ok', active_agents: 0 })))
      await test(`https://127.0.0.1:${server.port}`)
    } finally {
      setDefaultCACertificates(before)
    }
  }

  it('must be for the number that is called', async () => {
    await withCertificate('IP:127.0.0.1', async (url) => expect(await queries.health(at(url))).toEqual({ activeAgents: 0 }))
  })

  it('for another name is not taken, though that name is usual', async () => {
    await withCertificate('DNS:localhost', async (url) => await expect(queries.health(at(url))).rejects.toThrow(/cannot be reached/))
  })
})
