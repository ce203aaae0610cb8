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

/** Before the guard looks, so that a test that failed half-way is not the reason for the next to fail. */
afterEach(async () => {
  if (missing('docker') === undefined) await daemon().revive()
})

const countUntilOpen = (code = 0): readonly string[] => counter('/gate/open', code)

async function killed(server: TestServer): Promise<void> {
  server.ebb.signal('SIGKILL')
  await server.ebb.ended
}

/**
 * Between two lines of the agent, which then goes on alone: a line that the daemon has read and not yet written down dies with it,
 * and nobody could tell.
 */
async function loseDaemon(server: TestServer, id: string, gate: Gate): Promise<void> {
  gate.open('halt')
  await waitUntil(() => gate.isOpen('halted'), 10_000, 'the agent stands still')
  const printed = gate.count()
  await hasSaid(server, id, printed)
  await daemon().kill()
  gate.close('halt')
  await waitUntil(() => gate.count() >= printed + 10, 10_000, 'the agent prints though nobody listens')
}

/** Every line once, in order. */
function expectWhole(said: readonly string[]): void {
  const counted = said.slice(0, -1)
  expect(counted).toEqual(counted.map((_, index) => `line ${index + 1}`))
  expect(said.at(-1)).toBe(`last ${counted.length}`)
}

async function expectNothingLeft(server: TestServer): Promise<void> {
  expect(daemon().containers()).toEqual([])
  expect(await server.get('/api/cleanup/status')).toMatchObject({ runningProcesses: 0, resources: {}, leaks: [], stuck: [], heldBack: [] })
}

describe('a server that is lost (G9, supervisor lost)', () => {
  it('leaves its agents in containers to the next one: adopted, no line lost, none twice', async () => {
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

  it('again and again, and the agent is stopped in the end like any other', async () => {
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
    const said = await lines(server, id)
    expect(said).toEqual(said.map((_, index) => `line ${index + 1}`))
    await expectNothingLeft(server)
    await server.stop()
  })

  it('knows how an agent ended while nobody was there, and what it said last', async () => {
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

  it('and "ebb recover" leaves what is kept alone, but finishes what has ended, or was removed, meanwhile', async () => {
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
    // Also where the sentinel of the first had the claim, and may have looked before the agent had left.
    expect(daemon().containers()).toHaveLength(1)

    await using second = await startServer(gate.words, { home })
    expect(await second.get(`/api/agents/${leaving}`)).toMatchObject({ status: 'failed', exitCode: 5 })
    expectWhole(await lines(second, leaving))
    // The sentinel may have looked between its death and its removal: then it knows the exit code.
    const name = expect.stringMatching(/^(supervisor_lost|exit_code)$/)
    expect(await second.get(`/api/agents/${removed}`)).toMatchObject({ status: 'failed', error: { name } })
    expect(await second.get(`/api/agents/${living}`)).toMatchObject({ status: 'running' })
    expect(await second.post(`/api/agents/${living}/stop`)).toMatchObject({ success: true })
    await expectNothingLeft(second)
  })

  it('and when the daemon does not answer either, nothing is ended for that: what is kept is adopted, and followed later', async () => {
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

  it('without a server all of it ends: "ebb recover" takes the containers of a lost "ebb run"', async () => {
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

describe('a daemon that goes away', () => {
  it('and comes back while an agent prints: no line lost, none twice', async () => {
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

  it.each(['the server hears of it', 'a stop finds out'])(
    'while an agent ends: the report says that words may be missing; %s (G8)',
    async (who) => {
      const gate = gateFolder(daemon())
      await using server = await startServer(gate.words)
      const id = await inDocker(server, shell(`echo first; ${untilOpen('open')}; echo last`))
      await hasSaid(server, id, 1)
      const pid = daemon().docker('inspect', '-f', '{{.State.Pid}}', containerOf(daemon(), id))
      await daemon().kill()
      gate.open()
      await waitUntil(() => !existsSync(`/proc/${pid}`), 10_000, 'the agent has ended')
      const stopping = who === 'a stop finds out' ? server.call('POST', `/api/agents/${id}/stop`) : undefined
      await daemon().start()
      await stopping
      await ended(server, id)
      expect(await notes(server, id)).toEqual([expect.stringContaining('did not answer when the container ended')])
      await expectNothingLeft(server)
    },
  )

  it('in the middle of a stop: the answer is honest, the agent stays on the books, and a second stop proves it (G4, G11)', async () => {
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

  it('or hangs: a close does not hang with it, and the reaper ends what it could not', async () => {
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

/** Of its close. */
async function notes(server: TestServer, id: string): Promise<string[]> {
  const { resources } = await server.post<Json>(`/api/agents/${id}/stop`)
  return resources.flatMap((one: Json) => one.notes ?? [])
}

/** Its container may be removed already, by the sentinel. */
async function hasLeft(id: string): Promise<void> {
  const running = (): readonly string[] =>
    daemon()
      .containers(`ebb.scope=${id}`)
      .flatMap(({ name, state }) => (state === 'running' ? name : []))
  await waitUntil(running, 10_000, 'the agent has ended')
}
