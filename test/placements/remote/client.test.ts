import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { realClock } from '../../../src/host/clock.ts'
import type { RunnerCall } from '../../../src/placements/remote/ports.ts'
import { HttpRunner, HttpRunnerQueries } from '../../../src/placements/remote/runner.ts'
import { temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'

/** The HTTP client of a runner, against servers with different answers. */

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

describe('remote client: a 404', () => {
  it.each([
    ['of NestJS', { message: `Cannot GET /agent/status/${id}`, error: 'Not Found', statusCode: 404 }],
    ['of Fastify', { message: `Route GET:/agent/status/${id} not found`, error: 'Not Found', statusCode: 404 }],
    ['of Fastify behind a prefix', { message: `Route GET:/api/agent/status/${id} not found`, error: 'Not Found', statusCode: 404 }],
    ['of FastAPI', { detail: 'Not Found' }],
    ['of an Ebb server without the runner', { statusCode: 404, code: 'not_found', message: `There is no GET /agent/status/${id}.` }],
    ['of another agent', { error: 'Not Found', agent_id: 'somebody-else' }],
    ['of nothing', {}],
  ])('%s says nothing about an agent', async (_server, body) => {
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
  ])('with %s means that the runner has no such agent', async (_what, body) => {
    await using server = await listening(createServer(answering(404, body)))
    const url = `http://127.0.0.1:${server.port}`
    expect(await queries.status(at(url), id)).toEqual({ is: 'not-found' })
    expect(await new HttpRunner(realClock).stop(at(url), id, false)).toBe('not-found')
  })
})

const runnerHealth = { status: 'ok', timestamp: '2026-01-01T00:00:00.000Z', active_agents: 0 }

describe('remote client: a 404 that names no agent', () => {
  const besides = (health: unknown, body: unknown): RequestListener => {
    const [well, absent] = [answering(200, health), answering(404, body)]
    return (request, response) => (request.url === '/health' ? well : absent)(request, response)
  }

  it.each([
    ['without a message', {}],
    ['in the format of FastAPI', { detail: 'Not Found' }],
  ])("%s means that there is no such agent when the server's health is that of a runner", async (_how, body) => {
    await using server = await listening(createServer(besides(runnerHealth, body)))
    const url = `http://127.0.0.1:${server.port}`
    expect(await queries.status(at(url), id)).toEqual({ is: 'not-found' })
    expect(await new HttpRunner(realClock).stop(at(url), id, false)).toBe('not-found')
  })

  it.each([
    ['when the health is not that of a runner', { status: 'ok' }, {}],
    ['when a runner names its path', runnerHealth, { message: `Route GET:/agent/status/${id} not found` }],
    ['when a runner names another agent', runnerHealth, { error: 'Not Found', agent_id: 'somebody-else' }],
  ])('says nothing about the agent %s', async (_where, health, body) => {
    await using server = await listening(createServer(besides(health, body)))
    await expect(queries.status(at(`http://127.0.0.1:${server.port}`), id)).rejects.toThrow(/answered 404/)
  })
})

it('remote client: a runner may report another health status', async () => {
  await using server = await listening(createServer(answering(200, { status: 'healthy', active_agents: 3 })))
  expect(await queries.health(at(`http://127.0.0.1:${server.port}`))).toEqual({ activeAgents: 3 })
})

it("remote client: MCP servers are sent in the format of the programs' own files", async () => {
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

describe('remote client: the certificate of a runner', () => {
  needs('openssl')

  /** Serves with a self-signed certificate, which this process trusts during the test. */
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

  it('is accepted for the IP address that is called', async () => {
    await withCertificate('IP:127.0.0.1', async (url) => expect(await queries.health(at(url))).toEqual({ activeAgents: 0 }))
  })

  it('is refused for another name, even for "localhost"', async () => {
    await withCertificate('DNS:localhost', async (url) => await expect(queries.health(at(url))).rejects.toThrow(/cannot be reached/))
  })
})
