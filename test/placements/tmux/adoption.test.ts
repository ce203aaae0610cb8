import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ebb, startEbb, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { ended, hasSaid, lines } from '../../support/said.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { agentProcesses } from '../../support/shared-server.ts'
import { sessionsOf } from '../../support/tmux.ts'
import { processes as processesNow, seen, waitUntil } from '../../support/world.ts'

needs('tmux')

const shell = (script: string): readonly string[] => ['sh', '-c', script]

/** Counts up, a line at a time, until the file is there; then says so and ends with the code. */
const counter = (gate: string, code = 0): readonly string[] =>
  shell(`n=0; while [ ! -e ${gate} ]; do n=$((n+1)); echo "line $n"; sleep 0.01; done; echo "last $n"; exit ${code}`)

async function killed(server: TestServer): Promise<void> {
  server.ebb.signal('SIGKILL')
  await server.ebb.ended
}

/** Never 0, which is everybody in our own group. */
function kill(pid: number | undefined): void {
  if (!pid) throw new Error('It has ended already.')
  process.kill(pid, 'SIGKILL')
}

/** Whoever supervises, watches or recovers: it was told the home, and no agent was. */
const serversOf = (home: string): readonly unknown[] =>
  processesNow().filter(({ environ }) => `\0${environ}`.includes(`\0EBB_HOME=${home}\0`) && !environ.includes('EBB_SCOPE='))

/** Every line once, in order. */
function expectWhole(said: readonly string[]): void {
  const counted = said.slice(0, -1)
  expect(counted).toEqual(counted.map((_, index) => `line ${index + 1}`))
  expect(said.at(-1)).toBe(`last ${counted.length}`)
}

describe('a server that is lost (G9, supervisor lost)', () => {
  it('leaves its agents in tmux to the next one, which reads on where the first was: no line lost, none twice', async () => {
    const home = temporaryHome()
    const gate = join(temporaryHome(), 'gate')
    const first = await startServer([], { home })
    const id = await first.command(counter(gate), { placement: 'tmux', requestId: 'request-1' })
    const plain = await first.command(['sleep', '1000'])
    await hasSaid(first, id, 20)
    const { processes } = await first.get(`/api/agents/${id}/process`)
    await killed(first)

    await using second = await startServer([], { home })
    expect(await second.get(`/api/agents/${id}`)).toMatchObject({ status: 'running', requestId: 'request-1' })
    expect((await second.get(`/api/agents/${id}/process`)).processes[0].pid).toBe(processes[0].pid)
    expect(await second.get(`/api/agents/${plain}`)).toMatchObject({ status: 'failed', error: { name: 'supervisor_lost' } })
    expect(await second.get('/api/requests/request-1')).toMatchObject({ state: 'open' })
    expect(sessionsOf(home)).toHaveLength(1)
    const before = (await lines(second, id)).length
    await hasSaid(second, id, before + 20)
    writeFileSync(gate, '')
    expect(await ended(second, id)).toMatchObject({ status: 'completed' })
    expectWhole(await lines(second, id))
    expect(agentProcesses(home)).toEqual([])
    expect(sessionsOf(home)).toEqual([])
  })

  it('leaves a request its timeout: the next server closes it when that is over', async () => {
    const home = temporaryHome()
    const first = await startServer([], { home })
    expect(await first.call('POST', '/api/requests', { body: { id: 'timed', timeout: 8_000 } })).toMatchObject({ status: 201 })
    const id = await first.command(['sleep', '1000'], { placement: 'tmux', requestId: 'timed' })
    await killed(first)
    const killedMs = Date.now()
    await using second = await startServer([], { home })
    expect(await ended(second, id)).toMatchObject({ status: 'terminated' })
    // Its time may be over before anybody could have been told.
    const entry = (await second.get<Json[]>('/api/cleanup/history')).find(({ scope }) => scope.id === 'timed')
    const { report } = await second.get(`/api/cleanup/history/${entry?.id}`)
    expect(report).toMatchObject({ success: true, trigger: 'request-finished', scope: { kind: 'request', id: 'timed' } })
    expect(Date.parse(report.startedAt)).toBeGreaterThanOrEqual(killedMs)
    expect(await second.get('/api/requests/timed')).toMatchObject({ state: 'closed' })
  })

  it('closes a request whose time was over while nobody was there with all of its agents', async () => {
    const home = temporaryHome()
    const first = await startServer([], { home })
    expect(await first.call('POST', '/api/requests', { body: { id: 'over', timeout: 12_000 } })).toMatchObject({ status: 201 })
    const overMs = Date.now() + 12_000
    const place = { placement: 'tmux', requestId: 'over' }
    const ids = await Promise.all([1, 2, 3].map(() => first.command(['sleep', '1000'], place)))
    await killed(first)
    await waitUntil(() => Date.now() > overMs, 20_000, 'its time is over')
    await using second = await startServer([], { home })
    for (const id of ids) expect(await ended(second, id)).toMatchObject({ status: 'terminated' })
    expect(await second.get('/api/requests/over')).toMatchObject({ state: 'closed' })
    expect(agentProcesses(home)).toEqual([])
    expect((await second.get('/api/cleanup/history')).flatMap(({ errors }: Json) => errors)).toEqual([])
  })

  it.each(['scan', 'subreaper'])(
    'also without cgroups (%s): what is kept lives on, and what it started is still found',
    async (containment) => {
      const home = temporaryHome()
      const first = await startServer(['--containment', containment], { home })
      const script = `(setsid sh -c 'trap "" TERM HUP; exec sleep 1000' &) ; echo ready; exec sleep 1000`
      const id = await first.command(shell(script), { placement: 'tmux' })
      await hasSaid(first, id, 1)
      await killed(first)
      await using second = await startServer(['--containment', containment], { home })
      expect(await second.get(`/api/agents/${id}`)).toMatchObject({ status: 'running' })
      expect((await second.get(`/api/agents/${id}/process`)).processes).toHaveLength(2)
      expect(await second.post(`/api/agents/${id}/stop`, { grace: 100 })).toMatchObject({ success: true })
      expect(agentProcesses(home)).toEqual([])
    },
  )

  it('again and again, and the agent is stopped in the end like any other', async () => {
    const home = temporaryHome()
    let server = await startServer([], { home })
    const id = await server.command(counter('/nonexistent'), { placement: 'tmux', taskId: 'task-1' })
    for (let life = 0; life < 3; life++) {
      await hasSaid(server, id, 5)
      await killed(server)
      server = await startServer([], { home })
    }
    expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'terminated' })
    expect(agentProcesses(home)).toEqual([])
    const said = await lines(server, id)
    expect(said).toEqual(said.map((_, index) => `line ${index + 1}`))
    expect(await server.call('DELETE', `/api/agents/${id}`)).toMatchObject({ status: 204 })
    await server.stop()
  })

  it('knows how an agent ended while nobody was there, and what it said last', async () => {
    const home = temporaryHome()
    const gate = join(temporaryHome(), 'gate')
    const first = await startServer([], { home })
    const id = await first.command(counter(gate, 7), { placement: 'tmux' })
    await hasSaid(first, id, 5)
    const { processes } = await first.get(`/api/agents/${id}/process`)
    await killed(first)
    writeFileSync(gate, '')
    await waitUntil(() => !seen(processes[0].pid), 30_000, 'the agent has ended')

    await using second = await startServer([], { home })
    expect(await ended(second, id)).toMatchObject({ status: 'failed' })
    expect(await second.get(`/api/agents/${id}`)).toMatchObject({ exitCode: 7, error: { name: 'exit_code' } })
    expectWhole(await lines(second, id))
    expect(await second.get('/api/cleanup/status')).toMatchObject({ runningProcesses: 0, resources: {}, leaks: [] })
  })

  it('also when it ended long after the recovery was over, and when nobody could see how', async () => {
    const home = temporaryHome()
    const gate = join(temporaryHome(), 'gate')
    const first = await startServer([], { home })
    const id = await first.command(counter(gate, 7), { placement: 'tmux' })
    const other = await first.command(counter('/nonexistent'), { placement: 'tmux' })
    for (const one of [id, other]) await hasSaid(first, one, 5)
    const main = async (one: string): Promise<number> => (await first.get(`/api/agents/${one}/process`)).processes[0].pid
    const [pid, unseen] = [await main(id), await main(other)]
    const panes = sessionsOf(home)
    await killed(first)
    await waitUntil(() => serversOf(home), 30_000, 'the recovery is over')
    writeFileSync(gate, '')
    const pane = panes.find(({ panePid }) => panePid === seen(unseen)?.ppid)
    for (const one of [pane?.panePid, unseen]) kill(one)
    await waitUntil(() => !seen(pid) && !seen(unseen), 30_000, 'the agents have ended')

    await using second = await startServer([], { home })
    expect(await ended(second, id)).toMatchObject({ status: 'failed' })
    expect(await second.get(`/api/agents/${id}`)).toMatchObject({ exitCode: 7 })
    expectWhole(await lines(second, id))
    expect(await ended(second, other)).toMatchObject({ status: 'failed' })
    expect(await second.get(`/api/agents/${other}`)).toMatchObject({ error: { name: 'supervisor_lost' } })
    expect(await second.get('/api/cleanup/status')).toMatchObject({ runningProcesses: 0, resources: {}, leaks: [] })
  })

  it('is not kept from its successor by an engine that cannot adopt', async () => {
    const home = temporaryHome()
    const first = await startServer([], { home })
    const id = await first.command(counter('/nonexistent'), { placement: 'tmux' })
    await hasSaid(first, id, 3)
    await killed(first)
    // It recovers what it can, and lives on.
    const other = startEbb(['run', 'command', '--', 'sh', '-c', 'echo up; exec sleep 1000'], { home, env: { EBB_URL: undefined } })
    await other.says('up')
    await using second = await startServer([], { home })
    expect(await second.get(`/api/agents/${id}`)).toMatchObject({ status: 'running' })
    expect(await second.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
    other.signal('SIGINT')
    await other.ended
  })

  it('is not ended by a start that fails', async () => {
    const home = temporaryHome()
    const first = await startServer([], { home })
    const id = await first.command(counter('/nonexistent'), { placement: 'tmux' })
    await hasSaid(first, id, 3)
    await killed(first)
    await using taken = await startServer()
    const failed = await ebb(['serve', '--port', new URL(taken.url).port], { home })
    expect(failed.code).toBe(1)
    await using second = await startServer([], { home })
    expect(await second.get(`/api/agents/${id}`)).toMatchObject({ status: 'running' })
  })

  it('and "ebb recover" leaves what is kept alone, but finishes what has ended meanwhile', async () => {
    const home = temporaryHome()
    const gate = join(temporaryHome(), 'gate')
    const first = await startServer([], { home })
    const living = await first.command(counter('/nonexistent'), { placement: 'tmux' })
    const leaving = await first.command(counter(gate, 5), { placement: 'tmux' })
    const unseen = await first.command(counter('/nonexistent'), { placement: 'tmux' })
    for (const id of [living, leaving, unseen]) await hasSaid(first, id, 3)
    const { processes } = await first.get(`/api/agents/${leaving}/process`)
    const [doomed] = (await first.get(`/api/agents/${unseen}/process`)).processes
    await killed(first)
    for (const pid of [seen(doomed.pid)?.ppid, doomed.pid]) kill(pid)
    writeFileSync(gate, '')
    await waitUntil(() => !seen(processes[0].pid), 30_000, 'the agent has ended')
    expect((await ebb(['recover'], { home })).code).toBe(0)
    expect(sessionsOf(home)).toHaveLength(1)

    await using second = await startServer([], { home })
    expect(await second.get(`/api/agents/${leaving}`)).toMatchObject({ status: 'failed', exitCode: 5 })
    expectWhole(await lines(second, leaving))
    expect(await second.get(`/api/agents/${unseen}`)).toMatchObject({ status: 'failed', error: { name: 'supervisor_lost' } })
    expect(await second.get(`/api/agents/${living}`)).toMatchObject({ status: 'running' })
  })

  it('a launch that was under way is no agent: it is rolled back by the next', async () => {
    const home = temporaryHome()
    const server = await startServer([], { home })
    const launches = Array.from({ length: 8 }, () => server.command(['sleep', '1000'], { placement: 'tmux' }).catch(() => undefined))
    await Promise.race(launches)
    await killed(server)
    await Promise.all(launches)
    await using second = await startServer([], { home })
    const agents: Json[] = await second.get('/api/agents?status=running')
    expect(sessionsOf(home)).toHaveLength(agents.length)
    expect((await second.get('/api/cleanup/status')).leaks).toEqual([])
  })
})

describe('a server that is asked to leave', () => {
  it('takes its agents in tmux with it', async () => {
    const home = temporaryHome()
    const server = await startServer([], { home })
    await server.command(['sh', '-c', 'echo hello; exec sleep 1000'], { placement: 'tmux' })
    await server.stop()
    expect(sessionsOf(home)).toEqual([])
    expect(agentProcesses(home)).toEqual([])
  })

  it('with --keep-on-exit leaves them to the next start', async () => {
    const home = temporaryHome()
    const gate = join(temporaryHome(), 'gate')
    const first = await startServer(['--keep-on-exit'], { home })
    const id = await first.command(counter(gate), { placement: 'tmux' })
    await first.command(['sleep', '1000'])
    await hasSaid(first, id, 5)
    await first.stop()
    expect((await first.ebb.ended).code).toBe(0)
    expect(sessionsOf(home)).toHaveLength(1)
    await using second = await startServer([], { home })
    expect(await second.get('/api/agents/active')).toMatchObject([{ id, status: 'running' }])
    writeFileSync(gate, '')
    expect(await ended(second, id)).toMatchObject({ status: 'completed' })
    expectWhole(await lines(second, id))
    expect(existsSync(join(home, 'archive', id, 'stdout.log'))).toBe(true)
    expect(
      readFileSync(join(home, 'archive', id, 'stdout.log'), 'utf8')
        .split('\n')
        .filter(Boolean),
    ).toEqual(await lines(second, id))
  })

  it('and takes nothing in while it leaves (G13)', async () => {
    const home = temporaryHome()
    const server = await startServer(['--keep-on-exit'], { home })
    await server.command(counter('/nonexistent'), { placement: 'tmux' })
    const deaf = await server.command(shell(`trap '' TERM; echo deaf; while :; do sleep 0.1; done`))
    await hasSaid(server, deaf, 1)
    const client = await server.socket()
    server.ebb.signal('SIGTERM')
    await client.event('agent:updated', ({ agentId, status }) => agentId === deaf && status === 'stopping')
    const body = { type: 'command', prompt: '', configuration: { command: ['sleep', '1000'] } }
    expect((await server.call('POST', '/api/agents', { body })).status).toBe(409)
    await server.stop()
    expect(sessionsOf(home)).toHaveLength(1)
    await using second = await startServer([], { home })
    expect(await second.get('/api/agents/active')).toHaveLength(1)
  })
})
