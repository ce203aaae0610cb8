import { request as playwright } from '@playwright/test'
import { describe, expect, it } from 'vitest'
import {
  cleanupRealAgents,
  type RequestLike,
  type ResponseLike,
  TestCleanupManager,
  verifyTestIsolation,
  waitForAgentTerminalState,
} from '../../../src/testing/index.ts'
import { startEbb, temporaryHome } from '../../support/home.ts'
import { useServer } from '../../support/shared-server.ts'

const server = useServer()
const sleeper = ['sleep', '1000']

it('testing kit: works with a Playwright request that has a base URL', async () => {
  const request = await playwright.newContext({ baseURL: server.url })
  try {
    const { id } = await (
      await request.post('/api/agents', { data: { type: 'command', prompt: '', configuration: { command: sleeper } } })
    ).json()
    await expect(verifyTestIsolation(request)).rejects.toThrow(`agent ${id} (command, running)`)
    const done = await server.command(['true'])
    expect(await waitForAgentTerminalState(request, done)).toBe('completed')
    expect(await cleanupRealAgents(request)).toMatchObject({ cleaned: 2, remaining: 0 })
    await server.command(sleeper)
    await new TestCleanupManager(request).cleanupAll()
    await verifyTestIsolation(request)
  } finally {
    await request.dispose()
  }
})

it('testing kit: works with a Playwright request without a base URL, given a URL and a namespace', async () => {
  const request = await playwright.newContext()
  try {
    const mine = await server.command(sleeper, { namespace: 'mine' })
    const theirs = await server.command(sleeper, { namespace: 'theirs' })
    const target = { request, url: `${server.url}/`, namespace: 'mine' }
    expect(await cleanupRealAgents(target)).toMatchObject({ cleaned: 1, remaining: 0 })
    await verifyTestIsolation(target)
    expect((await server.call('GET', `/api/agents/${mine}`)).status).toBe(404)
    expect(await server.get(`/api/agents/${theirs}/status`)).toMatchObject({ status: 'running' })
    await new TestCleanupManager({ ...target, namespace: 'theirs' }).cleanupAll()
    expect(await new TestCleanupManager(target).isClean()).toBe(true)
    await verifyTestIsolation(server.url)
  } finally {
    await request.dispose()
  }
})

it('testing kit: accepts a URL object, and an address with a namespace', async () => {
  await server.command(sleeper, { namespace: 'mine' })
  await verifyTestIsolation({ url: server.url, namespace: 'another' })
  expect(await cleanupRealAgents(new URL(server.url))).toMatchObject({ cleaned: 1 })
})

it('testing kit: cleans up a server without test endpoints, and a reset of it names the missing option', async () => {
  const ebb = startEbb(['serve', '--port', '0', '--json'], { home: temporaryHome(), deadlineMs: 60_000 })
  await ebb.says('\n')
  const { url } = JSON.parse(ebb.output())
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify({ type: 'command', prompt: '', configuration: { command: sleeper } })
  expect((await fetch(`${url}/api/agents`, { method: 'POST', headers, body })).status).toBe(201)
  await expect(new TestCleanupManager(url).cleanupAll()).rejects.toThrow('--test-endpoints')
  expect(await cleanupRealAgents(url)).toMatchObject({ cleaned: 1, remaining: 0 })
  await verifyTestIsolation(url)
  ebb.signal('SIGTERM')
  expect((await ebb.ended).code).toBe(0)
})

it('testing kit: an unreachable server gives an error that names the call and the reason', async () => {
  await expect(cleanupRealAgents('http://127.0.0.1:1')).rejects.toThrow(
    /^GET http:\/\/127\.0\.0\.1:1\/api\/agents failed \(.*\); is "ebb serve" running there\?$/,
  )
  await expect(verifyTestIsolation({} as RequestLike)).rejects.toThrow('needs a base URL')
})

describe('cleanupRealAgents: a minimal request object', () => {
  const clean = {
    isClean: true,
    agentCount: 0,
    messageCount: 0,
    runningProcesses: 0,
    activeSubscriptions: 0,
    resources: {},
    leaks: [],
    stuck: [],
    heldBack: [],
  }
  const agents = Array.from({ length: 12 }, (_, index) => ({
    id: `agent-${index}`,
    type: 'command',
    status: 'running',
    namespace: 'default',
  }))

  /** A fake request object whose responses have only `ok()`, `status()` and `json()`. It refuses each deletion `refusals` times. */
  function fake(refusals: number): RequestLike & { deletions: string[]; atOnce: number } {
    const answer = (status: number, body: unknown): ResponseLike => ({
      ok: () => status < 400,
      status: () => status,
      json: async () => body,
    })
    const left = new Map(agents.map((agent) => [agent.id, refusals]))
    let running = 0
    const self = {
      deletions: [] as string[],
      atOnce: 0,
      get: async (url: string) => {
        const here = agents.filter(({ id }) => left.has(id))
        if (url === '/api/agents') return answer(200, here)
        return answer(200, here.length === 0 ? clean : { ...clean, isClean: false, agentCount: here.length })
      },
      post: async () => answer(404, {}),
      delete: async (url: string) => {
        self.atOnce = Math.max(self.atOnce, ++running)
        await new Promise((resolve) => setImmediate(resolve))
        running -= 1
        self.deletions.push(url)
        const id = url.slice('/api/agents/'.length, url.indexOf('?'))
        const refused = left.get(id) ?? 0
        if (refused === 0) left.delete(id)
        else left.set(id, refused - 1)
        return refused === 0 ? answer(204, undefined) : answer(409, { message: 'not yet' })
      },
    }
    return self
  }

  it('gets at most five deletions at once, and forced ones only after a refusal', async () => {
    const request = fake(1)
    expect(await cleanupRealAgents(request, { retryDelay: 20 })).toMatchObject({ cleaned: 12, remaining: 0, attempts: 2 })
    expect(request.atOnce).toBe(5)
    expect(request.deletions.slice(0, 12).every((url) => url.endsWith('?timeout=3000'))).toBe(true)
    expect(request.deletions.slice(12).every((url) => url.endsWith('?timeout=3000&force=true'))).toBe(true)
    expect(request.deletions).toHaveLength(24)
  })

  it('gets no more rounds than maxRetries', async () => {
    const request = fake(100)
    await expect(cleanupRealAgents(request, { maxRetries: 3, retryDelay: 1, throwOnFailure: true })).rejects.toThrow(
      'after 3 attempts: agent agent-0',
    )
    expect(request.deletions).toHaveLength(36)
  })

  it('gets no deletion when the server is clean', async () => {
    const request: RequestLike = { ...fake(0), get: async (url) => new Response(JSON.stringify(url === '/api/agents' ? [] : clean)) }
    expect(await cleanupRealAgents(request)).toMatchObject({ attempts: 0 })
    await verifyTestIsolation(request)
  })
})
