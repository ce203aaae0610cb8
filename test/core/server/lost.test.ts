import { expect, it } from 'vitest'
import { type RunningEbb, startEbb, temporaryHome } from '../../support/home.ts'
import { type Json, startServer } from '../../support/server.ts'
import { agentProcesses } from '../../support/shared-server.ts'
import { survivors, waitUntil } from '../../support/world.ts'

/** Starts `ebb run` processes on a home, before a server is started there. Their sentinels are stopped, so that they recover nothing. */
async function strays(home: string, count: number): Promise<{ runs: readonly RunningEbb[] } & Disposable> {
  // The deadline is long, because each `ebb run` must outlive the starts of the others.
  const options = { home, deadlineMs: 120_000 }
  const runs = Array.from({ length: count }, () => startEbb(['run', 'command', '--keep', '--', 'sleep', '1000'], options))
  await waitUntil(() => agentProcesses(home).filter((one) => one.includes('sleep')).length === count, 30_000, 'the agents run')
  const sentinels = survivors(home).filter(({ argv }) => argv.startsWith('ebb-sentinel'))
  expect(sentinels).toHaveLength(count)
  for (const { pid } of sentinels) process.kill(pid, 'SIGSTOP')
  return {
    runs,
    [Symbol.dispose]: () => {
      for (const { pid } of sentinels) process.kill(pid, 'SIGKILL')
    },
  }
}

it('agents of another ebb cannot be ended while it runs; after its SIGKILL a stop, a deletion and a reset end them', async () => {
  const home = temporaryHome()
  using stray = await strays(home, 3)
  await using server = await startServer([], { home })
  const ids: string[] = (await server.get('/api/agents')).map(({ id }: Json) => id)
  for (const id of ids) {
    for (const [method, path] of [
      ['POST', `/api/agents/${id}/stop`],
      ['DELETE', `/api/agents/${id}`],
    ] as const)
      expect(await server.call(method, path)).toMatchObject({ status: 409, body: { code: 'agent_foreign' } })
  }
  expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true, cleanedAgentsCount: 0 })
  expect(agentProcesses(home).filter((one) => one.includes('sleep'))).toHaveLength(3)

  const [stopped, deleted] = ids
  for (const run of stray.runs) run.signal('SIGKILL')
  await Promise.all(stray.runs.map(({ ended }) => ended))
  expect((await server.call('DELETE', `/api/agents/${deleted}`)).status).toBe(204)
  expect(await server.post(`/api/agents/${stopped}/stop`)).toMatchObject({ success: true, scope: { kind: 'agent', id: stopped } })
  expect(await server.get(`/api/agents/${stopped}`)).toMatchObject({ status: 'failed', error: { name: 'supervisor_lost' } })
  expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true, cleanedAgentsCount: 2 })
  expect(await server.get('/api/agents')).toEqual([])
  expect(agentProcesses(home)).toEqual([])
})

it('a reset alone ends the agents of another ebb that was killed', async () => {
  const home = temporaryHome()
  using stray = await strays(home, 2)
  await using server = await startServer([], { home })
  for (const run of stray.runs) run.signal('SIGKILL')
  await Promise.all(stray.runs.map(({ ended }) => ended))
  expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true, cleanedAgentsCount: 2 })
  expect(await server.get('/api/agents')).toEqual([])
  expect(agentProcesses(home)).toEqual([])
})
