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

/** A script that counts up, one line at a time, until the gate file exists. Then it prints the last number and exits with the code. */
const counter = (gate: string, code = 0): readonly string[] =>
  shell(`n=0; while [ ! -e ${gate} ]; do n=$((n+1)); echo "line $n"; sleep 0.01; done; echo "last $n"; exit ${code}`)

async function killed(server: TestServer): Promise<void> {
  server.ebb.signal('SIGKILL')
  await server.ebb.ended
}

/** Kills a process. Refuses pid 0, which means every process of the test's own process group. */
function kill(pid: number | undefined): void {
  if (!pid) throw new Error('There is no pid to kill: the process has ended already.')
  process.kill(pid, 'SIGKILL')
}

/** Servers, sentinels and recoveries of a home. They have EBB_HOME in their environment, and agents have the environment tag. */
const serversOf = (home: string): readonly unknown[] =>
  processesNow().filter(({ environ }) => `\0${environ}`.includes(`\0EBB_HOME=${home}\0`) && !environ.includes('EBB_SCOPE='))

/** Requires that the output contains every line once, in order. */
function expectWhole(output: readonly string[]): void {
  const counted = output.slice(0, -1)
  expect(counted).toEqual(counted.map((_, index) => `line ${index + 1}`))
  expect(output.at(-1)).toBe(`last ${counted.length}`)
}

describe('tmux: a killed server (G9)', () => {
  it('leaves its agents to the next server, which continues reading without losing or repeating a line', async () => {
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

  it('leaves the timeout of a request to the next server, which closes the request in time', async () => {
    const home = temporaryHome()
    const first = await startServer([], { home })
    expect(await first.call('POST', '/api/requests', { body: { id: 'timed', timeout: 8_000 } })).toMatchObject({ status: 201 })
    const id = await first.command(['sleep', '1000'], { placement: 'tmux', requestId: 'timed' })
    await killed(first)
    const killedMs = Date.now()
    await using second = await startServer([], { home })
    expect(await ended(second, id)).toMatchObject({ status: 'terminated' })
    // The timeout of the request may pass before a client could subscribe, so the test reads the history.
    const entry = (await second.get<Json[]>('/api/cleanup/history')).find(({ scope }) => scope.id === 'timed')
    const { report } = await second.get(`/api/cleanup/history/${entry?.id}`)
    expect(report).toMatchObject({ success: true, trigger: 'request-finished', scope: { kind: 'request', id: 'timed' } })
    expect(Date.parse(report.startedAt)).toBeGreaterThanOrEqual(killedMs)
    expect(await second.get('/api/requests/timed')).toMatchObject({ state: 'closed' })
  })

  it('leaves a request whose timeout passed meanwhile to the next server, which closes it with all its agents', async () => {
    const home = temporaryHome()
    const first = await startServer([], { home })
    expect(await first.call('POST', '/api/requests', { body: { id: 'over', timeout: 12_000 } })).toMatchObject({ status: 201 })
    const overMs = Date.now() + 12_000
    const place = { placement: 'tmux', requestId: 'over' }
    const ids = await Promise.all([1, 2, 3].map(() => first.command(['sleep', '1000'], place)))
    await killed(first)
    await waitUntil(() => Date.now() > overMs, 20_000, 'the timeout of the request has passed')
    await using second = await startServer([], { home })
    for (const id of ids) expect(await ended(second, id)).toMatchObject({ status: 'terminated' })
    expect(await second.get('/api/requests/over')).toMatchObject({ state: 'closed' })
    expect(agentProcesses(home)).toEqual([])
    expect((await second.get('/api/cleanup/history')).flatMap(({ errors }: Json) => errors)).toEqual([])
  })

  it.each(['scan', 'subreaper'])(
    'leaves its agents and their descendants to the next server without cgroups too (%s)',
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

  it('several times in a row: the agent is adopted each time and stopped at the end', async () => {
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
    const output = await lines(server, id)
    expect(output).toEqual(output.map((_, index) => `line ${index + 1}`))
    expect(await server.call('DELETE', `/api/agents/${id}`)).toMatchObject({ status: 204 })
    await server.stop()
  })

  it('the next server knows how an agent ended meanwhile, and its last output', async () => {
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

  it('the same when the agent ended long after the recovery, and when its exit is unknown', async () => {
    const home = temporaryHome()
    const gate = join(temporaryHome(), 'gate')
    const first = await startServer([], { home })
    const id = await first.command(counter(gate, 7), { placement: 'tmux' })
    const other = await first.command(counter('/nonexistent'), { placement: 'tmux' })
    for (const agent of [id, other]) await hasSaid(first, agent, 5)
    const main = async (agent: string): Promise<number> => (await first.get(`/api/agents/${agent}/process`)).processes[0].pid
    const [pid, unseen] = [await main(id), await main(other)]
    const panes = sessionsOf(home)
    await killed(first)
    await waitUntil(() => serversOf(home), 30_000, 'the recovery has ended')
    writeFileSync(gate, '')
    const pane = panes.find(({ panePid }) => panePid === seen(unseen)?.ppid)
    for (const target of [pane?.panePid, unseen]) kill(target)
    await waitUntil(() => !seen(pid) && !seen(unseen), 30_000, 'the agents have ended')

    await using second = await startServer([], { home })
    expect(await ended(second, id)).toMatchObject({ status: 'failed' })
    expect(await second.get(`/api/agents/${id}`)).toMatchObject({ exitCode: 7 })
    expectWhole(await lines(second, id))
    expect(await ended(second, other)).toMatchObject({ status: 'failed' })
    expect(await second.get(`/api/agents/${other}`)).toMatchObject({ error: { name: 'supervisor_lost' } })
    expect(await second.get('/api/cleanup/status')).toMatchObject({ runningProcesses: 0, resources: {}, leaks: [] })
  })

  it('an engine that cannot adopt leaves its agents to the next server', async () => {
    const home = temporaryHome()
    const first = await startServer([], { home })
    const id = await first.command(counter('/nonexistent'), { placement: 'tmux' })
    await hasSaid(first, id, 3)
    await killed(first)
    // `ebb run` cannot adopt agents. It recovers what it can, and keeps running.
    const other = startEbb(['run', 'command', '--', 'sh', '-c', 'echo up; exec sleep 1000'], { home, env: { EBB_URL: undefined } })
    await other.says('up')
    await using second = await startServer([], { home })
    expect(await second.get(`/api/agents/${id}`)).toMatchObject({ status: 'running' })
    expect(await second.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
    other.signal('SIGINT')
    await other.ended
  })

  it('a start that fails does not end its agents', async () => {
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

  it('"ebb recover" leaves running agents alone, and completes agents that ended meanwhile', async () => {
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

  it('a launch that was not complete is rolled back by the next server', async () => {
    const home = temporaryHome()
    const server = await startServer([], { home })
    // Launches fail when the server is killed, so their errors are ignored.
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

describe('tmux: a server that receives SIGTERM', () => {
  it('ends its agents in tmux', async () => {
    const home = temporaryHome()
    const server = await startServer([], { home })
    await server.command(['sh', '-c', 'echo hello; exec sleep 1000'], { placement: 'tmux' })
    await server.stop()
    expect(sessionsOf(home)).toEqual([])
    expect(agentProcesses(home)).toEqual([])
  })

  it('with --keep-on-exit leaves its agents to the next start', async () => {
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

  it('accepts no launch while it shuts down (G13)', async () => {
    const home = temporaryHome()
    const server = await startServer(['--keep-on-exit'], { home })
    await server.command(counter('/nonexistent'), { placement: 'tmux' })
    const stubborn = await server.command(shell(`trap '' TERM; echo deaf; while :; do sleep 0.1; done`))
    await hasSaid(server, stubborn, 1)
    const client = await server.socket()
    server.ebb.signal('SIGTERM')
    await client.event('agent:updated', ({ agentId, status }) => agentId === stubborn && status === 'stopping')
    const body = { type: 'command', prompt: '', configuration: { command: ['sleep', '1000'] } }
    expect((await server.call('POST', '/api/agents', { body })).status).toBe(409)
    await server.stop()
    expect(sessionsOf(home)).toHaveLength(1)
    await using second = await startServer([], { home })
    expect(await second.get('/api/agents/active')).toHaveLength(1)
  })
})
