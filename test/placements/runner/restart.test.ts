import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it } from 'vitest'
import { RunnerHost } from '../../../src/server/runner/host.ts'
import { temporaryHome } from '../../support/home.ts'
import { leftInHome } from '../../support/ledger-file.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { agentProcesses } from '../../support/shared-server.ts'
import { openSupervisor } from '../../support/supervisor.ts'
import { survivors, waitUntil } from '../../support/world.ts'
import { RunnerClient, shell } from './client.ts'

/** A runner that exits or dies and is started again ends its agents and keeps nothing of them. */

async function becomesEmpty(server: TestServer): Promise<void> {
  const left = async (): Promise<readonly string[]> => [
    ...agentProcesses(server.home),
    ...(await server.get<Json[]>('/api/agents')).map((one) => `agent ${one.id}`),
    ...leftInHome(server.home),
    ...readdirSync(join(server.home, 'archive')),
  ]
  await waitUntil(left, 15_000, 'nothing of the agents of the runner is left')
}

it('a runner that exits ends its agents first, and their streams with `event: error`', async () => {
  const server = await startServer(['--runner'])
  const client = new RunnerClient(server.url)
  const stream = await client.stream(shell('echo here; setsid sleep 1000 & sleep 1000'))
  await stream.received(1)
  await client.start(shell('sleep 1000'))
  await server.stop()
  await stream.closed
  expect(stream.last).toEqual({ name: 'error', data: expect.stringContaining('stopped') })
  expect(agentProcesses(server.home)).toEqual([])
  await using again = await startServer(['--runner'], { home: server.home })
  await becomesEmpty(again)
})

it('after SIGKILL of a runner its streams break, and the next runner has neither its agents nor their rows', async () => {
  const home = temporaryHome()
  const server = await startServer(['--runner'], { home })
  const stream = await new RunnerClient(server.url).stream(shell('echo here; setsid sleep 1000 & sleep 1000'))
  await stream.received(1)
  server.ebb.signal('SIGKILL')
  await server.ebb.ended
  await stream.closed
  expect(stream.last?.name).toBe('')
  await using again = await startServer(['--runner'], { home })
  const client = new RunnerClient(again.url)
  // The agent is gone, because the recovery runs before the runner listens.
  expect(agentProcesses(home)).toEqual([])
  // The agent ended within the last minute, so the new runner knows it, although an earlier run started it.
  for (let round = 0; round < 2; round++) {
    expect(await client.status(stream.id)).toMatchObject({ status: 200, body: { process_alive: false } })
    expect((await client.stop(stream.id)).status).toBe(200)
    await becomesEmpty(again)
  }
  expect(await client.start(shell('true', { agent_id: stream.id }))).toMatchObject({ status: 409, body: { code: 'agent_exists' } })
})

/** Kills the server while its sentinel is stopped, so that the agents stay for another recovery. */
async function diesUnwatched({ home, ebb }: TestServer): Promise<void> {
  const sentinels = survivors(home).filter(({ argv }) => argv.startsWith('ebb-sentinel'))
  for (const { pid } of sentinels) process.kill(pid, 'SIGSTOP')
  ebb.signal('SIGKILL')
  await ebb.ended
  for (const { pid } of sentinels) process.kill(pid, 'SIGKILL')
}

it.each(['with', 'without'])('an agent of an earlier run that is not recovered yet is alive, %s its row', async (row) => {
  const home = temporaryHome()
  const server = await startServer(['--runner'], { home })
  const id: string = (await new RunnerClient(server.url).start(shell('sleep 1000'))).body.agent_id
  await using supervisor = await openSupervisor({ home })
  const control = await supervisor.control()
  const host = new RunnerHost(control)
  try {
    // The agent belongs to the runner of `server`, which is alive.
    expect(await host.status(id)).toMatchObject({ isAlive: true })
    await expect(host.stop(id, false)).rejects.toMatchObject({ code: 'agent_foreign' })
    expect(agentProcesses(home)).not.toEqual([])
    await diesUnwatched(server)
    // Without its row, the agent is like one whose launch was interrupted: the ledger is written before the row.
    if (row === 'without') {
      using database = new DatabaseSync(join(home, 'ebb.db'))
      expect(database.prepare('DELETE FROM agent WHERE id = ?').run(id).changes).toBe(1)
    }
    expect(await host.status(id)).toMatchObject({ isAlive: true })
    if (row === 'with') expect(await host.activeAgents()).toBe(1)
    await host.stop(id, false)
    expect(agentProcesses(home)).toEqual([])
    if (row === 'with') {
      expect(await host.status(id)).toMatchObject({ isAlive: false })
      await host.stop(id, false)
    }
    expect(await host.activeAgents()).toBe(0)
    const never = randomUUID()
    await expect(host.stop(never, false)).rejects.toMatchObject({ code: 'agent_not_found' })
    await expect(host.status(never)).rejects.toMatchObject({ code: 'agent_not_found' })
  } finally {
    host.close()
    await control.close()
  }
})

it("a runner keeps the server's own agents in the namespace `runner`", async () => {
  const home = temporaryHome()
  const server = await startServer(['--runner'], { home })
  const own = await server.command(['true'], { namespace: 'runner' })
  await server.get(`/api/agents/${own}/status?wait=15000`)
  await server.stop()
  await using again = await startServer(['--runner'], { home })
  const stream = await new RunnerClient(again.url).stream(shell('true'))
  await stream.closed
  await waitUntil(async () => (await again.get<Json[]>('/api/agents')).length === 1, 15_000, 'the row of the runner’s agent is gone')
  expect(await again.get(`/api/agents/${own}`)).toMatchObject({ status: 'completed' })
})

it('an ended agent is remembered for `rememberMs`, and then leaves nothing', async () => {
  await using supervisor = await openSupervisor()
  const control = await supervisor.control()
  const host = new RunnerHost(control, { rememberMs: 3_000, refuseMs: 300, sweepMs: 20 })
  try {
    const order = { type: 'command', prompt: '', configuration: { command: ['sleep', '1000'] } }
    const { id } = await host.launch(order, false)
    expect(await host.status(id)).toMatchObject({ isAlive: true })
    await host.stop(id, false)
    expect(await host.status(id)).toMatchObject({ isAlive: false, signal: 'SIGTERM' })
    expect(await control.store.find(id)).toBeDefined()
    await waitUntil(async () => (await control.store.find(id)) === undefined, 10_000, 'its row is gone')
    await expect(host.status(id)).rejects.toMatchObject({ code: 'agent_not_found' })
    await expect(host.stop(id, false)).rejects.toMatchObject({ code: 'agent_not_found' })
    // The id is free again after `refuseMs`, because by then no launch with this id can still be on its way.
    await waitUntil(
      () =>
        host.launch({ ...order, agentId: id }, false).then(
          () => true,
          () => false,
        ),
      10_000,
      'the id is free',
    )
    await host.stop(id, true)
  } finally {
    host.close()
    await control.close()
  }
})
