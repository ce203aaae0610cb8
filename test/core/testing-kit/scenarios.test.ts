import { describe, expect, it, vi } from 'vitest'
import {
  cleanupAllAgents,
  cleanupRealAgents,
  type RequestLike,
  verifyTestIsolation,
  waitForAgentTerminalState,
} from '../../../src/testing/index.ts'
import { fixture } from '../../support/fixtures.ts'
import { bindMount } from '../../support/mounts.ts'
import { useServer } from '../../support/shared-server.ts'
import { survivors } from '../../support/world.ts'

/** Scenarios for the cleanup functions, with a real server and real processes. */

const server = useServer()

let markers = 0
const newMarker = (): string => `kit-${process.pid}-${++markers}-`

/** Launches an agent whose processes carry the marker, and waits for its first message. */
async function launch(argv: readonly string[], marker = newMarker()): Promise<string> {
  const id = await server.command(argv, { configuration: { command: argv, env: { MARKER: marker } } })
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  return id
}

const endsOnSigterm = ['sh', '-c', 'trap "exit 0" TERM; echo ready; while :; do sleep 0.05; done']

it('cleanupRealAgents: a running agent is ended with SIGTERM', async () => {
  const marker = newMarker()
  const agent = await launch(endsOnSigterm, marker)
  expect(survivors(marker)).not.toEqual([])
  const result = await cleanupRealAgents(server.url)
  expect(result).toEqual({ cleaned: 1, remaining: 0, attempts: 1, duration: expect.any(Number), issues: [] })
  expect(survivors(marker)).toEqual([])
  const [{ id, scope }] = await server.get('/api/cleanup/history?limit=1')
  expect(scope).toEqual({ kind: 'agent', id: agent })
  const { report } = await server.get(`/api/cleanup/history/${id}`)
  const [tree] = report.resources.filter(({ kind }: { kind: string }) => kind === 'process-tree')
  expect(tree.steps.map(({ step }: { step: string }) => step)).toEqual(['terminate'])
  await verifyTestIsolation(server.url)
})

it('cleanupAllAgents: more agents than fit in one batch are cleaned up in one round', async () => {
  const marker = newMarker()
  await Promise.all(Array.from({ length: 12 }, () => launch(['sh', '-c', 'echo ready; exec sleep 1000'], marker)))
  expect(survivors(marker)).toHaveLength(12)
  expect(await cleanupAllAgents(server.url)).toMatchObject({ cleaned: 12, remaining: 0, attempts: 1 })
  expect(survivors(marker)).toEqual([])
  await verifyTestIsolation(server.url)
})

it('cleanupRealAgents: completed agents are removed without any delay', async () => {
  for (const command of [['true'], ['false']]) await waitForAgentTerminalState(server.url, await server.command(command))
  const { duration, ...result } = await cleanupRealAgents(server.url, { processExitDelay: 60_000, retryDelay: 60_000 })
  expect(result).toMatchObject({ cleaned: 2, remaining: 0, attempts: 1 })
  expect(duration).toBeLessThan(30_000)
})

it('cleanupRealAgents: a clean server needs no attempt', async () => {
  expect(await cleanupRealAgents(server.url)).toMatchObject({ cleaned: 0, remaining: 0, attempts: 0 })
})

describe('verifyTestIsolation', () => {
  it('throws an error that names every agent and process', async () => {
    const running = await launch(['sh', '-c', 'echo ready; exec sleep 1000'])
    const done = await server.command(['true'])
    await waitForAgentTerminalState(server.url, done)
    const { processes } = await server.get(`/api/agents/${running}/process`)
    const violated = verifyTestIsolation(server.url)
    await expect(violated).rejects.toThrow(/^Test isolation violated: /)
    await expect(violated).rejects.toThrow(`agent ${running} (command, running)`)
    await expect(violated).rejects.toThrow(`agent ${done} (command, completed)`)
    await expect(violated).rejects.toThrow(`process ${processes[0].pid} (sleep)`)
  })

  it('reports subscriptions', async () => {
    const id = await launch(['sh', '-c', 'echo ready; exec sleep 1000'])
    const client = await server.socket()
    client.socket.emit('subscribe', { agentId: id })
    await client.event('subscribed')
    await expect(verifyTestIsolation(server.url)).rejects.toThrow('1 active subscription')
  })

  it('passes for an empty namespace while another one has an agent', async () => {
    await launch(['sh', '-c', 'echo ready; exec sleep 1000'])
    await verifyTestIsolation({ url: server.url, namespace: 'elsewhere' })
    await expect(verifyTestIsolation({ url: server.url, namespace: 'default' })).rejects.toThrow('(command, running)')
  })
})

it('waitForAgentTerminalState: resolves when the agent is deleted, and nothing is left', async () => {
  const marker = newMarker()
  const id = await launch(endsOnSigterm, marker)
  const waiting = waitForAgentTerminalState(server.url, id)
  expect((await server.call('DELETE', `/api/agents/${id}`)).status).toBe(204)
  expect(['terminated', 'deleted']).toContain(await waiting)
  expect(await waitForAgentTerminalState(server.url, id)).toBe('deleted')
  expect(survivors(marker)).toEqual([])
  await verifyTestIsolation(server.url)
})

it('cleanupRealAgents: agents that ignore SIGTERM, fork or cannot be released are retried by force until they are gone', async () => {
  const marker = newMarker()
  await launch([fixture('forks-while-being-killed')], marker)
  const stuck = await launch([fixture('ignores-sigterm'), fixture('waits')], marker)
  const [log] = (await server.get(`/api/agents/${stuck}/resources`)).filter(({ kind }: { kind: string }) => kind === 'log')
  // A mount point can be neither moved nor removed, so the log cannot be released.
  using mount = bindMount('/dev/null', log.name)
  const deletions: { query: string; status: number }[] = []
  const request: RequestLike = {
    get: (url) => fetch(url),
    post: (url) => fetch(url, { method: 'POST' }),
    delete: async (url) => {
      const answer = await fetch(url, { method: 'DELETE' })
      if (url.includes(stuck)) deletions.push({ query: new URL(url).search, status: answer.status })
      if (deletions.length === 2) mount[Symbol.dispose]()
      return answer
    },
  }
  const result = await cleanupRealAgents({ request, url: server.url }, { processExitDelay: 500, retryDelay: 50 })
  expect(result).toMatchObject({ cleaned: 2, remaining: 0, attempts: 3, issues: [] })
  expect(deletions.map(({ query, status }) => [query, status])).toEqual([
    ['?timeout=500', 409],
    ['?timeout=500&force=true', 409],
    ['?timeout=500&force=true', 204],
  ])
  expect(survivors(marker)).toEqual([])
  await verifyTestIsolation(server.url)
})

it('cleanupRealAgents: what cannot be released is named, in a warning or an error', async () => {
  const id = await launch(['sh', '-c', 'echo ready; exec sleep 1000'])
  const [log] = (await server.get(`/api/agents/${id}/resources`)).filter(({ kind }: { kind: string }) => kind === 'log')
  using _ = bindMount('/dev/null', log.name)
  const warn = vi.spyOn(console, 'warn').mockReturnValue()
  const options = { maxRetries: 2, processExitDelay: 100, retryDelay: 10 }
  const result = await cleanupRealAgents(server.url, options)
  expect(result).toMatchObject({ cleaned: 0, remaining: 1, attempts: 2 })
  expect(result.issues.join('\n')).toContain(`agent ${id} (command, stuck)`)
  expect(warn.mock.calls.flat().join('\n')).toContain(`not complete after 2 attempts: agent ${id}`)
  warn.mockRestore()
  await expect(cleanupRealAgents(server.url, { ...options, throwOnFailure: true })).rejects.toThrow(`agent ${id} (command, stuck)`)
  await expect(waitForAgentTerminalState(server.url, id)).rejects.toThrow(`Agent ${id} is stuck`)
  await expect(verifyTestIsolation(server.url)).rejects.toThrow('stuck: log')
})
