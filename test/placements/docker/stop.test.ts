import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { image } from '../../support/docker.ts'
import {
  becomes,
  containerOf,
  counter,
  type Gate,
  gateFolder,
  inDocker,
  shell,
  untilOpen,
  useDockerd,
} from '../../support/docker-agents.ts'
import { missing, needs } from '../../support/real.ts'
import { ended, hasSaid, lines } from '../../support/said.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { hierarchies } from '../../support/world.ts'

needs('docker')
const daemon = useDockerd()

let server: TestServer
let gate: Gate
beforeAll(async () => {
  if (missing('docker') !== undefined) return
  // The gate folder is in the daemon's folder, because all tests of this file share both.
  gate = gateFolder(daemon(), join(daemon().folder, 'gate'))
  server = await startServer(gate.words)
})
afterAll(async () => await server?.stop())

const stop = (id: string, body: object = {}): Promise<Json> => server.post(`/api/agents/${id}/stop`, body)
const runOf = ({ resources }: Json): Json => resources.find(({ kind }: Json) => kind === 'container-run')
const stepsOf = (report: Json): string[] => runOf(report).steps.map(({ step }: Json) => step)

/** Requires that nothing of the agents that were stopped or deleted is left, in the daemon or in the ledger. */
async function expectNothingLeft(): Promise<void> {
  expect(daemon().containers()).toEqual([])
  expect(await server.get('/api/cleanup/status')).toMatchObject({ runningProcesses: 0, resources: {}, leaks: [], stuck: [], heldBack: [] })
}

/** Freezes the cgroup of a process. With cgroup v1, even SIGKILL takes effect only after a thaw. */
function freeze(pid: string): void {
  const places = readFileSync(`/proc/${pid}/cgroup`, 'utf8')
  const first = hierarchies().find(({ version, controllers }) => version === 1 && controllers.includes('freezer'))
  const place = (named: RegExp): string => named.exec(places)?.[1] ?? ''
  if (first) writeFileSync(join(first.mountPoint, place(/:freezer:(.*)$/m), 'freezer.state'), 'FROZEN')
  else writeFileSync(join(hierarchies()[0]?.mountPoint ?? '', place(/^0::(.*)$/m), 'cgroup.freeze'), '1')
}

describe('docker: stopping an agent', () => {
  it('sends SIGTERM first, reads the last output, and proves the end by an observation (G3)', async () => {
    const id = await inDocker(server, shell('trap "echo bye; exit 5" TERM; echo up; while :; do sleep 0.05; done'))
    await hasSaid(server, id, 1)
    const report = await stop(id)
    expect(report).toMatchObject({ success: true, trigger: 'terminated' })
    expect(stepsOf(report)).toEqual(['terminate'])
    expect(runOf(report)).toMatchObject({ proof: { method: 'the container is exited, not running', strength: 'api' } })
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'terminated', exitCode: 5 })
    expect(await lines(server, id)).toEqual(['up', 'bye'])
    await expectNothingLeft()
  })

  it('does not wait for pid 1 of the container when it has no handler for SIGTERM', async () => {
    const id = await inDocker(server, shell('echo up; exec sleep 1000'))
    await hasSaid(server, id, 1)
    // The grace is longer than the timeout of the test, so a stop that waited for it would fail.
    const report = await stop(id, { grace: 600_000 })
    expect(stepsOf(report)).toEqual(['kill'])
    await expectNothingLeft()
  })

  it('kills an agent that handles SIGTERM and does not exit, after its grace', async () => {
    const id = await inDocker(server, shell('trap "echo no" TERM; echo up; while :; do sleep 0.05; done'))
    await hasSaid(server, id, 1)
    // The grace of five seconds is enough for the agent to print `no`, also on a busy machine.
    expect(stepsOf(await stop(id, { grace: 5_000 }))).toEqual(['terminate', 'kill'])
    expect(await lines(server, id)).toEqual(['up', 'no'])
    await expectNothingLeft()
  })

  it('ends everything in a container without init: zombies, daemons in sessions of their own, processes that ignore signals (G2)', async () => {
    const daemons = `for i in 1 2 3; do (setsid sh -c 'trap "" TERM HUP; echo daemon; exec env -i sleep 1000' &); done`
    const id = await inDocker(server, shell(`trap "" TERM; ${daemons}; (sleep 0 &); (sleep 0 &); echo up; while :; do sleep 0.2; done`))
    await hasSaid(server, id, 4)
    const { processes } = await server.get(`/api/agents/${id}/process`)
    expect(processes.length).toBeGreaterThanOrEqual(4)
    expect(await stop(id, { grace: 100 })).toMatchObject({ success: true })
    for (const { pid } of processes) expect(() => readFileSync(`/proc/${pid}/stat`)).toThrow()
    await expectNothingLeft()
  })

  it('unpauses a paused container, so that its agent can handle SIGTERM', async () => {
    const id = await inDocker(server, shell('trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.05; done'))
    await hasSaid(server, id, 1)
    daemon().docker('pause', containerOf(daemon(), id))
    const report = await stop(id, { grace: 20_000 })
    expect(stepsOf(report)).toEqual(['terminate'])
    expect(await lines(server, id)).toEqual(['up', 'bye'])
    const unresponsive = await inDocker(server, shell('echo up; exec sleep 1000'))
    await hasSaid(server, unresponsive, 1)
    daemon().docker('pause', containerOf(daemon(), unresponsive))
    expect(await stop(unresponsive, { force: true })).toMatchObject({ success: true })
    await expectNothingLeft()
  })

  it("ends an agent that was frozen without the daemon's knowledge, also by force", async () => {
    const id = await inDocker(server, shell('echo up; exec sleep 1000'))
    await hasSaid(server, id, 1)
    freeze(daemon().docker('inspect', '--format', '{{.State.Pid}}', containerOf(daemon(), id)).trim())
    expect(await stop(id, { force: true })).toMatchObject({ success: true })
    await expectNothingLeft()
  })

  it('ends an agent whose container has the restart policy "always"', async () => {
    const id = await inDocker(server, shell('echo up; exec sleep 1000'))
    await hasSaid(server, id, 1)
    daemon().docker('update', '--restart', 'always', containerOf(daemon(), id))
    expect(await stop(id)).toMatchObject({ success: true })
    await expectNothingLeft()
  })

  it('with a stop signal of the image: SIGTERM ends a paused container and one with a restart policy', async () => {
    // The daemon itself unpauses a container and stops restarting it only for the stop signal of its image or for SIGKILL.
    const made = daemon().docker('create', '--stop-signal', 'SIGQUIT', '--network', 'none', image, 'true')
    daemon().docker('commit', made, 'bb:quit')
    daemon().docker('rm', '-v', made)
    await using own = await startServer(daemon().words.map((word) => (word === image ? 'bb:quit' : word)))
    const polite = shell('trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.05; done')
    const paused = await inDocker(own, polite)
    await hasSaid(own, paused, 1)
    daemon().docker('pause', containerOf(daemon(), paused))
    const restarted = await inDocker(own, polite)
    await hasSaid(own, restarted, 1)
    daemon().docker('update', '--restart', 'always', containerOf(daemon(), restarted))
    for (const id of [paused, restarted]) {
      expect(stepsOf(await own.post(`/api/agents/${id}/stop`, { grace: 5_000 }))).toEqual(['terminate'])
      expect(await lines(own, id)).toEqual(['up', 'bye'])
    }
    await expectNothingLeft()
  })

  it("the first end of a container that the daemon restarts is the agent's end", async () => {
    const id = await inDocker(server, shell(`echo life; ${untilOpen('life')}; exit 4`))
    daemon().docker('update', '--restart', 'always', containerOf(daemon(), id))
    gate.open('life')
    expect(await ended(server, id)).toMatchObject({ status: 'failed' })
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ exitCode: 4 })
    await expectNothingLeft()
  })

  it('a container that a foreign client removed ends the agent, and its output is kept', async () => {
    const id = await inDocker(server, shell('echo up; exec sleep 1000'))
    await hasSaid(server, id, 1)
    daemon().docker('rm', '-f', containerOf(daemon(), id))
    await ended(server, id)
    expect(await lines(server, id)).toEqual(['up'])
    expect(readFileSync(join(server.home, 'archive', id, 'stdout.log'), 'utf8')).toBe('up\n')
    await expectNothingLeft()
  })

  it('a container that a foreign client removes during its close counts as released (G5)', async () => {
    const id = await inDocker(server, shell('trap "echo asked" TERM; echo up; while :; do sleep 0.05; done'))
    await hasSaid(server, id, 1)
    const closing = stop(id, { grace: 60_000 })
    await hasSaid(server, id, 2)
    daemon().docker('rm', '-f', containerOf(daemon(), id))
    expect(await closing).toMatchObject({ success: true })
    await expectNothingLeft()
  })

  it('a renamed container is found by its labels, and a stopped one is removed', async () => {
    const id = await inDocker(server, shell('echo up; exec sleep 1000'))
    await hasSaid(server, id, 1)
    daemon().docker('rename', containerOf(daemon(), id), 'something-else')
    expect(await stop(id)).toMatchObject({ success: true })
    const stopped = await inDocker(server, shell('echo up; exec sleep 1000'))
    await hasSaid(server, stopped, 1)
    daemon().docker('kill', containerOf(daemon(), stopped))
    expect(await ended(server, stopped)).toMatchObject({ status: 'failed' })
    expect(await server.get(`/api/agents/${stopped}`)).toMatchObject({ exitCode: 137 })
    await expectNothingLeft()
  })

  it('two deletions at once both answer 204 and leave nothing, logs and archive included', async () => {
    const id = await inDocker(server, counter('/nonexistent'))
    await hasSaid(server, id, 5)
    const both = await Promise.all([server.call('DELETE', `/api/agents/${id}`), server.call('DELETE', `/api/agents/${id}`)])
    expect(both.map(({ status }) => status)).toEqual([204, 204])
    expect(await server.call('GET', `/api/agents/${id}`)).toMatchObject({ status: 404 })
    expect(() => readFileSync(join(server.home, 'archive', id, 'stdout.log'))).toThrow()
    await expectNothingLeft()
  })

  it('a reset removes all containers with their anonymous volumes', async () => {
    // Volumes are compared before and after, because containers that other tests removed have left theirs.
    const volumes = (): string[] => daemon().docker('volume', 'ls', '-q').split('\n')
    const before = volumes()
    const ids = await Promise.all(Array.from({ length: 4 }, () => inDocker(server, counter('/nonexistent'))))
    for (const id of ids) await hasSaid(server, id, 2)
    expect(volumes().length).toBeGreaterThan(before.length)
    expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true })
    expect(volumes()).toEqual(before)
    await expectNothingLeft()
  })

  it('a reset during launches removes what they have created', async () => {
    // A launch fails when the reset comes before it.
    const launches = Array.from({ length: 4 }, () => inDocker(server, ['sleep', '1000']).catch(() => undefined))
    await Promise.race([launches[0], becomesAny()])
    expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true })
    await Promise.all(launches)
    expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true })
    await expectNothingLeft()
  })
})

async function becomesAny(): Promise<void> {
  for (;;) {
    const [first] = daemon().containers()
    if (first) return await becomes(daemon(), first.id, 'running')
    await server.get('/api/health')
  }
}
