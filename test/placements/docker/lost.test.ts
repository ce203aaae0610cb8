import { existsSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { image } from '../../support/docker.ts'
import {
  becomes,
  containerOf,
  counter,
  type Gate,
  gateFolder,
  haltingCounter,
  inDocker,
  shell,
  untilOpen,
  useDockerd,
} from '../../support/docker-agents.ts'
import { ebb, startEbb, temporaryHome } from '../../support/home.ts'
import { missing, needs } from '../../support/real.ts'
import { ended, hasSaid, lines } from '../../support/said.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'

needs('docker')
const daemon = useDockerd()

/**
 * Starts the daemon again before the guard of the test suite checks the machine, so that a test that failed half-way does not make the next
 * one fail.
 */
afterEach(async () => {
  if (missing('docker') === undefined) await daemon().revive()
})

const countUntilOpen = (code = 0): readonly string[] => counter('/gate/open', code)

async function killed(server: TestServer): Promise<void> {
  server.ebb.signal('SIGKILL')
  await server.ebb.ended
}

/**
 * Kills the daemon while the agent pauses between two lines. The agent then runs on. The pause is needed because a line that the daemon has
 * read and not stored is lost with it, without a trace.
 */
async function loseDaemon(server: TestServer, id: string, gate: Gate): Promise<void> {
  gate.open('halt')
  await waitUntil(() => gate.isOpen('halted'), 10_000, 'the agent pauses')
  const printed = gate.count()
  await hasSaid(server, id, printed)
  await daemon().kill()
  gate.close('halt')
  await waitUntil(() => gate.count() >= printed + 10, 10_000, 'the agent prints while the daemon is dead')
}

/** Requires that the output contains every line once, in order. */
function expectWhole(output: readonly string[]): void {
  const counted = output.slice(0, -1)
  expect(counted).toEqual(counted.map((_, index) => `line ${index + 1}`))
  expect(output.at(-1)).toBe(`last ${counted.length}`)
}

async function expectNothingLeft(server: TestServer): Promise<void> {
  expect(daemon().containers()).toEqual([])
  expect(await server.get('/api/cleanup/status')).toMatchObject({ runningProcesses: 0, resources: {}, leaks: [], stuck: [], heldBack: [] })
}

describe('docker: a killed server (G9)', () => {
  it('leaves its agents in containers to the next server, which adopts them without losing or repeating a line', async () => {
    const home = temporaryHome()
    const gate = gateFolder(daemon())
    const first = await startServer(gate.words, { home })
    const id = await inDocker(first, countUntilOpen(), {}, { requestId: 'request-1' })
    await hasSaid(first, id, 20)
    const container = containerOf(daemon(), id)
    await killed(first)

    await using second = await startServer(gate.words, { home })
    expect(await second.get(`/api/agents/${id}`)).toMatchObject({ status: 'running', requestId: 'request-1' })
    expect(containerOf(daemon(), id)).toBe(container)
    await hasSaid(second, id, (await lines(second, id)).length + 20)
    gate.open()
    expect(await ended(second, id)).toMatchObject({ status: 'completed' })
    expectWhole(await lines(second, id))
    await expectNothingLeft(second)
  })

  it('several times in a row: the agent is adopted each time and stopped at the end', async () => {
    const home = temporaryHome()
    let server = await startServer(daemon().words, { home })
    const id = await inDocker(server, counter('/nonexistent'))
    for (let life = 0; life < 3; life++) {
      await hasSaid(server, id, 5)
      await killed(server)
      server = await startServer(daemon().words, { home })
    }
    expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'terminated' })
    const output = await lines(server, id)
    expect(output).toEqual(output.map((_, index) => `line ${index + 1}`))
    await expectNothingLeft(server)
    await server.stop()
  })

  it('the next server knows how an agent ended meanwhile, and its last output', async () => {
    const home = temporaryHome()
    const gate = gateFolder(daemon())
    const first = await startServer(gate.words, { home })
    const id = await inDocker(first, countUntilOpen(7))
    await hasSaid(first, id, 5)
    await killed(first)
    gate.open()
    await hasLeft(id)

    await using second = await startServer(gate.words, { home })
    expect(await ended(second, id)).toMatchObject({ status: 'failed' })
    expect(await second.get(`/api/agents/${id}`)).toMatchObject({ exitCode: 7, error: { name: 'exit_code' } })
    expectWhole(await lines(second, id))
    await expectNothingLeft(second)
  })

  it('"ebb recover" leaves running agents alone, and completes agents that ended or were removed meanwhile', async () => {
    const home = temporaryHome()
    const gate = gateFolder(daemon())
    const first = await startServer(gate.words, { home })
    const living = await inDocker(first, counter('/nonexistent'))
    const leaving = await inDocker(first, countUntilOpen(5))
    const removed = await inDocker(first, counter('/nonexistent'))
    for (const id of [living, leaving, removed]) await hasSaid(first, id, 3)
    await killed(first)
    daemon().docker('rm', '-f', containerOf(daemon(), removed))
    gate.open()
    await hasLeft(leaving)
    expect((await ebb(['recover', ...gate.words], { home })).code).toBe(0)
    // One container is left, also when the sentinel of the first server had the claim and looked before the agent had ended.
    expect(daemon().containers()).toHaveLength(1)

    await using second = await startServer(gate.words, { home })
    expect(await second.get(`/api/agents/${leaving}`)).toMatchObject({ status: 'failed', exitCode: 5 })
    expectWhole(await lines(second, leaving))
    // The exit code of the removed container is known when the sentinel looked between the container's death and its removal.
    const name = expect.stringMatching(/^(supervisor_lost|exit_code)$/)
    expect(await second.get(`/api/agents/${removed}`)).toMatchObject({ status: 'failed', error: { name } })
    expect(await second.get(`/api/agents/${living}`)).toMatchObject({ status: 'running' })
    expect(await second.post(`/api/agents/${living}/stop`)).toMatchObject({ success: true })
    await expectNothingLeft(second)
  })

  it('with an unreachable daemon, the next server ends nothing: it adopts the agent and follows it later', async () => {
    const home = temporaryHome()
    const gate = gateFolder(daemon())
    const first = await startServer(gate.words, { home })
    const id = await inDocker(first, haltingCounter)
    await hasSaid(first, id, 5)
    await loseDaemon(first, id, gate)
    await killed(first)
    await using second = await startServer(gate.words, { home })
    expect(await second.get(`/api/agents/${id}`)).toMatchObject({ status: 'running' })
    await daemon().start()
    await hasSaid(second, id, (await lines(second, id)).length + 20)
    gate.open()
    expect(await ended(second, id)).toMatchObject({ status: 'completed' })
    expectWhole(await lines(second, id))
    await expectNothingLeft(second)
  })

  it('docker: "ebb recover" ends the containers of a killed "ebb run", which has no next server', async () => {
    const home = temporaryHome()
    const env = { EBB_URL: undefined, EBB_DOCKER_IMAGE: image, EBB_DOCKER_HOST: daemon().host, EBB_DOCKER_NETWORK: 'none' }
    const words = ['run', 'command', '--placement', 'docker', '--', 'sh', '-c', 'echo up; exec sleep 1000']
    const run = startEbb(words, { home, env })
    await run.says('up')
    run.signal('SIGKILL')
    await run.ended
    expect((await ebb(['recover', ...daemon().words], { home })).code).toBe(0)
    await waitUntil(() => daemon().containers(), 10_000, 'the sentinel or the recovery removes the container')
  })
})

describe('docker: a daemon that goes away', () => {
  it('and comes back while an agent prints: no line is lost or repeated', async () => {
    const gate = gateFolder(daemon())
    await using server = await startServer(gate.words)
    const id = await inDocker(server, haltingCounter)
    await hasSaid(server, id, 20)
    await loseDaemon(server, id, gate)
    await daemon().start()
    await hasSaid(server, id, (await lines(server, id)).length + 20)
    gate.open()
    expect(await ended(server, id)).toMatchObject({ status: 'completed' })
    expectWhole(await lines(server, id))
    expect(await notes(server, id)).toEqual([])
    await expectNothingLeft(server)
  })

  it.each(['the server notices the end', 'a stop notices the end'])(
    'while an agent ends: the report says that output may be missing when %s (G8)',
    async (observer) => {
      const gate = gateFolder(daemon())
      await using server = await startServer(gate.words)
      const id = await inDocker(server, shell(`echo first; ${untilOpen('open')}; echo last`))
      await hasSaid(server, id, 1)
      const pid = daemon().docker('inspect', '-f', '{{.State.Pid}}', containerOf(daemon(), id))
      await daemon().kill()
      gate.open()
      await waitUntil(() => !existsSync(`/proc/${pid}`), 10_000, 'the agent has ended')
      const stopping = observer === 'a stop notices the end' ? server.call('POST', `/api/agents/${id}/stop`) : undefined
      await daemon().start()
      await stopping
      await ended(server, id)
      expect(await notes(server, id)).toEqual([expect.stringContaining('did not answer when the container ended')])
      await expectNothingLeft(server)
    },
  )

  it('during a stop: the stop fails, the agent is stuck, and a second stop proves its end (G4, G11)', async () => {
    await using server = await startServer(daemon().words)
    const id = await inDocker(server, shell('trap "echo asked" TERM; echo up; while :; do sleep 0.05; done'))
    await hasSaid(server, id, 1)
    const stopping = server.call<Json>('POST', `/api/agents/${id}/stop`, { body: { grace: 4_000 } })
    await hasSaid(server, id, 2)
    await daemon().kill()
    const answer = await stopping
    expect(answer).toMatchObject({ status: 409, body: { code: 'not_released', details: { success: false } } })
    expect(JSON.stringify(answer.body)).toContain('does not answer')
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'stuck' })
    expect(await server.call('DELETE', `/api/agents/${id}?timeout=1000`)).toMatchObject({ status: 409, body: { code: 'not_released' } })
    await daemon().start()
    await becomes(daemon(), containerOf(daemon(), id), 'running')
    expect(await server.call('DELETE', `/api/agents/${id}`)).toMatchObject({ status: 204 })
    await expectNothingLeft(server)
  })

  it('and hangs: a close does not hang, and the reaper completes it later', async () => {
    await using server = await startServer(daemon().words)
    const id = await inDocker(server, shell('echo up; exec sleep 1000'))
    await hasSaid(server, id, 1)
    daemon().freeze()
    const answer = await server.call<Json>('DELETE', `/api/agents/${id}?timeout=1500&force=true`)
    expect(answer).toMatchObject({ status: 409, body: { code: 'not_released' } })
    daemon().thaw()
    await waitUntil(async () => (await server.post<Json>('/api/reaper/run')).left, 20_000, 'the reaper ends it')
    expect(await server.call('GET', `/api/agents/${id}`)).toMatchObject({ status: 404 })
    await expectNothingLeft(server)
  })
})

/** The notes in the report of the agent's close. */
async function notes(server: TestServer, id: string): Promise<string[]> {
  const { resources } = await server.post<Json>(`/api/agents/${id}/stop`)
  return resources.flatMap((resource: Json) => resource.notes ?? [])
}

/** Waits until the agent's container does not run. The sentinel may have removed it already. */
async function hasLeft(id: string): Promise<void> {
  const running = (): readonly string[] =>
    daemon()
      .containers(`ebb.scope=${id}`)
      .flatMap(({ name, state }) => (state === 'running' ? name : []))
  await waitUntil(running, 10_000, 'the agent has ended')
}
