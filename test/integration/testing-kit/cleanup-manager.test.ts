import { expect, it } from 'vitest'
import { type RequestLike, TestCleanupManager } from '../../../src/testing/index.ts'
import { fixture } from '../../support/fixtures.ts'
import { bindMount } from '../../support/mounts.ts'
import { useServer } from '../../support/shared-server.ts'

const server = useServer()

it('brings agents, messages and subscriptions back to nothing, and says so', async () => {
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

it('touches only its namespace', async () => {
  const theirs = await server.command(['sleep', '1000'], { namespace: 'theirs' })
  await server.command(['sleep', '1000'], { namespace: 'mine' })
  await new TestCleanupManager({ url: server.url, namespace: 'mine' }).cleanupAll()
  expect((await server.get('/api/agents')).map((agent: { id: string }) => agent.id)).toEqual([theirs])
})

it('forceCleanup kills without asking', async () => {
  await server.command([fixture('ignores-sigterm'), fixture('waits')])
  const report = await new TestCleanupManager(server.url).forceCleanup()
  expect(report).toMatchObject({ success: true, cleanedAgentsCount: 1 })
  const steps = report.resources.find(({ kind }) => kind === 'process-tree')?.steps.map(({ step }) => step)
  expect(steps).toEqual(['kill'])
})

it('a reset that is not through at once is verified, then forced, and the second attempt may succeed', async () => {
  const id = await server.command(['sleep', '1000'])
  const [log] = (await server.get(`/api/agents/${id}/resources`)).filter(({ kind }: { kind: string }) => kind === 'log')
  using mount = bindMount('/dev/null', log.name)
  const forces: boolean[] = []
  const request: RequestLike = {
    get: (url) => fetch(url),
    delete: (url) => fetch(url, { method: 'DELETE' }),
    post: async (url, { data = {} } = {}) => {
      forces.push((data as { force: boolean }).force)
      expect(data).toMatchObject({ waitForCompletion: true, timeout: 10_000 })
      if (forces.length === 3) mount[Symbol.dispose]()
      // The same reset, in less time.
      const body = JSON.stringify({ ...(data as object), timeout: 10 })
      return await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    },
  }
  await new TestCleanupManager({ request, url: server.url }).cleanupAll()
  expect(forces).toEqual([false, true, false])
})

it('what no reset can release is named', async () => {
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
  let resets = 0
  const json = (body: unknown): Response => new Response(JSON.stringify(body))
  const request: RequestLike = {
    get: async (url) =>
      json(url === '/api/agents' ? [agent] : url === '/api/cleanup/status' ? status : { processes: [{ pid: 7, command: 'sh' }] }),
    post: async () => {
      resets += 1
      return json({ success: false })
    },
    delete: async () => json({}),
  }
  await expect(new TestCleanupManager(request).cleanupAll()).rejects.toThrow(
    'The environment could not be reset in 2 attempts: agent a1 (command, stuck); process 7 (sh); stuck: log L: EBUSY.',
  )
  expect(resets).toBe(4)
})
