import { execFileSync } from 'node:child_process'
import { hostname } from 'node:os'
import { describe, expect, it } from 'vitest'
import { fixture } from '../../support/fixtures.ts'
import type { Client, Json } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'
import { seen, waitUntil } from '../../support/world.ts'

const server = useServer()
const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

/** Launches an agent that ignores every signal but SIGKILL, and waits until the agent ignores them. */
async function unkillable(more: object = {}): Promise<string> {
  const id = await server.command([fixture('ignores-sigterm'), fixture('waits')], more)
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  return id
}

const closesOf = (client: Client): readonly string[] => client.events.map(({ name }) => name).filter((name) => name.startsWith('cleanup:'))

describe('a running close', () => {
  it('sends events from its start to its report, with its steps and then the proof', async () => {
    const client = await server.socket()
    const id = await unkillable()
    const stopping = server.post(`/api/agents/${id}/stop`, { grace: 30_000 })
    const started = await client.event('cleanup:started')
    expect(started).toEqual({
      id: expect.any(String),
      trigger: 'terminated',
      scope: { kind: 'agent', id },
      startedAt: instant,
      timestamp: instant,
    })
    const moved = await client.event('cleanup:progress', ({ resource }) => resource.state === 'terminate')
    expect(moved).toMatchObject({ ...started, timestamp: instant, resource: { kind: 'process-tree', state: 'terminate', since: instant } })
    const running = await server.get(`/api/cleanup/history/${started.id}`)
    expect(running).toMatchObject({ state: 'running', released: 0, stuck: 0 })
    expect(running.progress.map((one: Json) => [one.kind, one.state]).toSorted()).toEqual([
      ['log', 'waiting'],
      ['log', 'waiting'],
      ['process-tree', 'terminate'],
      ['temp-folder', 'waiting'],
    ])
    expect((await server.get('/api/cleanup/history'))[0]).toMatchObject({ id: started.id, state: 'running' })
    const report = await server.post(`/api/agents/${id}/stop`, { force: true })
    expect(await stopping).toEqual(report)
    expect(await client.event('cleanup:report')).toEqual({ id: started.id, report, timestamp: instant })
    // The history contains the finished close as soon as its report is sent.
    expect(await server.get(`/api/cleanup/history/${started.id}`)).toEqual(expect.objectContaining({ state: 'done', report }))
    for (const resource of report.resources)
      expect(resource).toMatchObject({ id: expect.any(String), scope: { kind: 'agent', id }, startedAt: instant, endedAt: instant })
    const tree = report.resources.find(({ kind }: Json) => kind === 'process-tree')
    const waited = report.resources.filter(({ kind }: Json) => kind !== 'process-tree')
    expect(tree.dependsOn.toSorted()).toEqual(waited.map((one: Json) => one.id).toSorted())
    for (const one of waited) expect(Date.parse(one.startedAt)).toBeGreaterThanOrEqual(Date.parse(tree.endedAt))
    expect(waited.filter(({ kind }: Json) => kind === 'log').map(({ obligations }: Json) => typeof obligations.took)).toEqual([
      'number',
      'number',
    ])
    expect(closesOf(client).at(0)).toBe('cleanup:started')
    expect(closesOf(client).at(-1)).toBe('cleanup:report')
  })

  it('is sent to the clients of its namespace and to those without one', async () => {
    const [own, other, all] = await Promise.all([server.socket({ namespace: 'one' }), server.socket({ namespace: 'two' }), server.socket()])
    const id = await unkillable({ namespace: 'one' })
    await server.post(`/api/agents/${id}/stop`, { grace: 300 })
    const second = await server.command(['sleep', '1000'], { namespace: 'two' })
    await server.post(`/api/agents/${second}/stop`)
    for (const client of [other, all]) await client.event('cleanup:report', ({ report }) => report.scope.id === second)
    await own.event('cleanup:report', ({ report }) => report.scope.id === id)
    const received = (client: Client): readonly string[] => [
      ...new Set(['cleanup:started', 'cleanup:progress'].flatMap((name) => client.of(name).map(({ scope }) => scope.id))),
    ]
    expect(received(own)).toEqual([id])
    expect(received(other)).toEqual([second])
    expect(received(all)).toEqual([id, second])
  })

  it('a close of many agents is one close, whose events name the agent', async () => {
    const client = await server.socket()
    const ids = await Promise.all(Array.from({ length: 50 }, () => unkillable({ namespace: 'many' })))
    const request = { timeout: 30_000, waitForCompletion: false, namespace: 'many' }
    const { id } = await server.post('/api/test/reset-environment', request)
    // A second request to reset joins the close that is running.
    expect((await server.post('/api/test/reset-environment', request)).id).toBe(id)
    await client.event('cleanup:progress', ({ resource }) => resource.state === 'terminate')
    const { progress } = await server.get(`/api/cleanup/history/${id}`)
    expect(progress).toHaveLength(200)
    expect(new Set(progress.map(({ scope }: Json) => scope.id))).toEqual(new Set(ids))
    expect((await server.post('/api/test/reset-environment', { ...request, force: true })).id).toBe(id)
    const { report } = await client.event('cleanup:report')
    expect(report.success).toBe(true)
    expect(new Set(report.resources.map(({ scope }: Json) => scope.id))).toEqual(new Set(ids))
    expect(client.of('cleanup:started').map((event) => event.id)).toEqual([id])
    expect(closesOf(client).indexOf('cleanup:report')).toBe(closesOf(client).length - 1)
  })
})

describe('GET /agents/usage', () => {
  it('observes all running agents, without the processes that write their logs', async () => {
    const one = await server.command(['sh', '-c', 'sleep 1000 & sleep 1000 & echo up; wait'])
    const two = await server.command(['sh', '-c', 'echo up; exec sleep 1000'], { namespace: 'two' })
    await server.get(`/api/agents/${two}/messages?since=1&wait=15000`)
    const client = await server.socket()
    client.socket.emit('subscribe', { agentId: one, since: 0 })
    await client.event('agent:message', ({ message }) => message.content === 'up')
    const { processes } = await server.get(`/api/agents/${two}/process`)
    const { pid } = processes[0]
    // Before the process sleeps, it is still in its exec, and its memory grows.
    await waitUntil(() => seen(pid)?.command === 'sleep' && seen(pid)?.state === 'S', 30_000, 'it sleeps')
    const usage: Json[] = await server.get('/api/agents/usage')
    expect(usage.toSorted((a, b) => b.processes - a.processes)).toEqual([
      { agentId: one, processes: 3, rssBytes: expect.any(Number) },
      { agentId: two, processes: 1, rssBytes: expect.any(Number) },
    ])
    const [mine] = await server.get('/api/agents/usage?namespace=two')
    const resident = Number(execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })) * 1_024
    expect(mine).toEqual({ agentId: two, processes: 1, rssBytes: resident })
    expect(await server.get('/api/agents/usage?namespace=none')).toEqual([])
    await server.post(`/api/agents/${one}/stop`)
    expect((await server.get('/api/agents/usage')).map(({ agentId }: Json) => agentId)).toEqual([two])
    client.socket.disconnect()
  })

  it('is refused for a malformed namespace', async () => {
    expect(await server.call('GET', '/api/agents/usage?namespace=no%2Fsuch')).toMatchObject({
      status: 400,
      body: { code: 'invalid_request' },
    })
  })
})

it('GET /health: names the host, the placements, and whether there are test endpoints', async () => {
  expect(await server.get('/api/health')).toMatchObject({
    testEndpoints: true,
    runner: false,
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    host: { name: hostname(), platform: process.platform },
    placements: expect.arrayContaining(['process']),
  })
})
