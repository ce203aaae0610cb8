import { expect, it } from 'vitest'
import { type RequestLike, TestCleanupManager } from '../../../src/testing/index.ts'
import { fixture } from '../../support/fixtures.ts'
import { useServer } from '../../support/shared-server.ts'

const server = useServer()

it('TestCleanupManager: removes agents, messages and subscriptions, and reports a clean server', async () => {
  const manager = new TestCleanupManager(server.url)
  expect(await manager.isClean()).toBe(true)
  const id = await server.command(['sleep', '1000'])
  const client = await server.socket()
  client.socket.emit('subscribe', { agentId: id })
  await client.event('subscribed')
  expect(await manager.isClean()).toBe(false)
  await manager.cleanupAll()
  expect(await manager.isClean()).toBe(true)
  expect(await server.get('/api/agents')).toEqual([])
  await manager.cleanupAll()
})

it('TestCleanupManager: changes only its namespace', async () => {
  const theirs = await server.command(['sleep', '1000'], { namespace: 'theirs' })
  await server.command(['sleep', '1000'], { namespace: 'mine' })
  await new TestCleanupManager({ url: server.url, namespace: 'mine' }).cleanupAll()
  expect((await server.get('/api/agents')).map((agent: { id: string }) => agent.id)).toEqual([theirs])
})

it('TestCleanupManager: forceCleanup kills without a polite step', async () => {
  await server.command([fixture('ignores-sigterm'), fixture('waits')])
  const report = await new TestCleanupManager(server.url).forceCleanup()
  expect(report).toMatchObject({ success: true, cleanedAgentsCount: 1 })
  const steps = report.resources.find(({ kind }) => kind === 'process-tree')?.steps.map(({ step }) => step)
  expect(steps).toEqual(['kill'])
})

it('TestCleanupManager: resets by force when the server is not clean after a successful reset', async () => {
  await server.command(['sleep', '1000'])
  const forces: boolean[] = []
  const request: RequestLike = {
    get: (url) => fetch(url),
    delete: (url) => fetch(url, { method: 'DELETE' }),
    post: async (url, { data = {} } = {}) => {
      forces.push((data as { force: boolean }).force)
      if (forces.length === 1) return new Response(JSON.stringify({ success: true }))
      return await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(data) })
    },
  }
  await new TestCleanupManager({ request, url: server.url }, { verifyTimeout: 50 }).cleanupAll()
  expect(forces).toEqual([false, true])
})

it('TestCleanupManager: rejects after two attempts, and names what is left', async () => {
  const status = {
    isClean: false,
    agentCount: 1,
    messageCount: 1,
    runningProcesses: 1,
    activeSubscriptions: 0,
    resources: {},
    leaks: [],
    stuck: ['log L: EBUSY'],
    heldBack: [],
  }
  const agent = { id: 'a1', type: 'command', status: 'stuck', namespace: 'default' }
  const resets: unknown[] = []
  const json = (body: unknown): Response => new Response(JSON.stringify(body))
  const request: RequestLike = {
    get: async (url) =>
      json(url === '/api/agents' ? [agent] : url === '/api/cleanup/status' ? status : { processes: [{ pid: 7, command: 'sh' }] }),
    post: async (_url, { data } = {}) => {
      resets.push(data)
      return json({ success: false })
    },
    delete: async () => json({}),
  }
  await expect(new TestCleanupManager(request, { verifyTimeout: 20, backoff: 20 }).cleanupAll()).rejects.toThrow(
    'The environment could not be reset in 2 attempts: agent a1 (command, stuck); process 7 (sh); stuck: log L: EBUSY.',
  )
  const reset = { force: false, waitForCompletion: true, timeout: 10_000 }
  expect(resets).toEqual([reset, { ...reset, force: true }, reset, { ...reset, force: true }])
})
