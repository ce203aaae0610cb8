import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { waitForOrders } from '../../../src/placements/tmux/script.ts'
import { temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import type { Json } from '../../support/server.ts'
import { agentProcesses, useServer } from '../../support/shared-server.ts'
import { sessionsOf, tmux, tmuxServerPid } from '../../support/tmux.ts'
import { processes, survivors, waitUntil } from '../../support/world.ts'

needs('tmux')

const server = useServer()
const inTmux = (argv: readonly string[], more: object = {}): Promise<string> => server.command(argv, { placement: 'tmux', ...more })
const ended = (id: string): Promise<Json> => server.get(`/api/agents/${id}/status?wait=20000`)
const shell = (script: string): readonly string[] => ['sh', '-c', script]
const contents = async (id: string): Promise<string[]> =>
  (await server.get<Json[]>(`/api/agents/${id}/messages`)).slice(1).map(({ content }) => content)

/** Resolves when the agent has printed the text. */
async function says(id: string, text: string): Promise<void> {
  for (let since = 1; ; ) {
    const news: Json[] = await server.get(`/api/agents/${id}/messages?since=${since}&wait=10000`)
    if (news.length === 0) throw new Error(`The agent did not print "${text}" within 10 s of its last message.`)
    if (news.some(({ content }) => content.includes(text))) return
    since = news.at(-1).sequenceNumber
  }
}

async function nameOf(id: string): Promise<string> {
  return (await server.get(`/api/agents/${id}`)).name
}

describe('tmux: an agent in a session of its own (G1, G2, G3)', () => {
  it('has both streams in its terminal and in its messages, and has its prompt, folder and environment', async () => {
    const folder = temporaryHome()
    const value = `a 'quoted' "value" $HOME \`x\`\nand a line`
    const script = `cat; echo; pwd; printf "%s\\n" "$ODD"; echo "\${TMUX-none}"; echo complaint >&2; echo ready; exec sleep 1000`
    const configuration = { command: shell(script), workingDirectory: folder, env: { ODD: value } }
    const id = await inTmux([], { prompt: 'the prompt', configuration })
    for (const word of ['ready', 'complaint']) await says(id, word)
    expect((await contents(id)).filter((line) => line !== 'complaint')).toEqual([
      'the prompt',
      folder,
      ...value.split('\n'),
      'none',
      'ready',
    ])
    const name = await nameOf(id)
    expect(name).toMatch(/^command-\d{6}-[0-9a-f]{6}$/)
    expect(sessionsOf(server.home)).toMatchObject([{ name: `agent_${name}` }])
    const screen = (): string => tmux(server.home, 'capture-pane', '-p', '-t', `=agent_${name}:`)
    // A line that is in the log has been written to the terminal. The tmux server may not have read the line yet.
    await waitUntil(() => ['the prompt', 'complaint', 'ready'].filter((word) => !screen().includes(word)), 30_000, 'the screen shows it')
    const { processes: seen, containment } = await server.get(`/api/agents/${id}/process`)
    expect(seen.map(({ command }: Json) => command)).toEqual([expect.stringContaining('sleep')])
    if (containment === 'cgroup') expect(readFileSync(`/proc/${seen[0].pid}/cgroup`, 'utf8')).toContain(id)
    const report = await server.post(`/api/agents/${id}/stop`)
    expect(report).toMatchObject({ success: true, errors: [] })
    expect(report.resources.map(({ kind }: Json) => kind).sort()).toEqual([
      'file',
      'log',
      'log',
      'process-tree',
      'temp-folder',
      'tmux-session',
    ])
    expect(sessionsOf(server.home)).toEqual([])
    expect(await contents(id)).toContain('ready')
  })

  it('accepts an environment that is larger than a pipe', async () => {
    const big = 'x'.repeat(100_000)
    const script = `echo "\${#BIG}"; exec sleep 1000`
    const id = await inTmux([], { configuration: { command: shell(script), env: { BIG: big } } })
    await says(id, '100000')
  })

  it('leaves nothing, whatever it started: setsid, nohup, and processes that ignore SIGHUP', async () => {
    const mark = `tmux-zoo-${process.pid}`
    const id = await inTmux(
      shell(`
        setsid sh -c 'exec sleep 1000 # ${mark}' &
        nohup sh -c 'trap "" HUP TERM; while :; do sleep 1; done # ${mark}' >/dev/null 2>&1 &
        (trap '' HUP; exec sh -c 'exec sleep 1000 # ${mark}') &
        echo started; trap '' HUP TERM INT; while :; do sleep 1; done # ${mark}`),
    )
    await says(id, 'started')
    expect(await server.post(`/api/agents/${id}/stop`, { grace: 200 })).toMatchObject({ success: true })
    expect(survivors(mark)).toEqual([])
    expect(agentProcesses(server.home)).toEqual([])
  })

  it("takes a session that it created on Ebb's tmux server with it", async () => {
    // The process carries no mark, so a unique duration identifies it.
    const seconds = `${1_000 + process.pid}.${Date.now()}`
    const beside = `tmux -S ${join(server.home, 'tmux.sock')} new-session -d -s beside 'exec sleep ${seconds}'`
    const id = await inTmux(shell(`${beside}; echo made; exec sleep 1000`))
    await says(id, 'made')
    expect(sessionsOf(server.home).map(({ name }) => name)).toContain('beside')
    expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
    expect(sessionsOf(server.home)).toEqual([])
    const asleep = ['sleep', seconds, ''].join('\0')
    expect(processes().filter(({ argv }) => argv === asleep)).toEqual([])
  })

  it('fifty at once have their own lines each', async () => {
    const ids = await Promise.all(Array.from({ length: 50 }, (_, n) => inTmux(shell(`echo "number ${n}"; exec sleep 1000`))))
    await Promise.all(ids.map((id, n) => says(id, `number ${n}`)))
    expect(sessionsOf(server.home)).toHaveLength(50)
    const reports = await Promise.all(ids.map((id) => server.post(`/api/agents/${id}/stop`)))
    expect(reports.filter(({ success }) => !success)).toEqual([])
    expect(sessionsOf(server.home)).toEqual([])
    for (const [n, id] of ids.entries()) expect(await contents(id)).toEqual([`number ${n}`])
  }, 120_000)

  it('runs no tmux command from the name of its folder', async () => {
    const folder = join(temporaryHome(), '#(touch made-by-a-name)')
    mkdirSync(folder)
    const script = 'pwd; exec sleep 1000'
    const id = await inTmux([], { configuration: { command: shell(script), workingDirectory: folder } })
    await says(id, folder)
    expect(['/', folder].map((where) => existsSync(join(where, 'made-by-a-name')))).toEqual([false, false])
  })

  it('is completed when it reported success, although it had to be ended with SIGTERM', async () => {
    const result = '{"type":"result","subtype":"success","is_error":false,"result":"done"}'
    const bin = temporaryHome()
    writeFileSync(join(bin, 'claude'), `#!/bin/sh\ntrap 'exit 143' TERM INT\necho '${result}'\nwhile :; do sleep 0.1; done\n`, {
      mode: 0o755,
    })
    const id = await server.launch({
      type: 'claude-code',
      prompt: 'x',
      placement: 'tmux',
      configuration: { env: { PATH: `${bin}:${process.env.PATH}` } },
    })
    expect(await ended(id)).toMatchObject({ status: 'completed' })
  }, 30_000)

  it('that exits by itself is completed or failed by its exit code', async () => {
    // The agents wait for the gate, because an exit before the launch is answered would be a failed launch.
    const gate = join(temporaryHome(), 'gate')
    const wait = `until [ -e ${gate} ]; do sleep 0.01; done`
    const good = await inTmux(shell(`echo done; ${wait}`))
    const bad = await inTmux(shell(`echo oh; ${wait}; exit 7`))
    writeFileSync(gate, '')
    expect(await ended(good)).toMatchObject({ status: 'completed' })
    expect(await ended(bad)).toMatchObject({ status: 'failed' })
    expect(await server.get(`/api/agents/${bad}`)).toMatchObject({ exitCode: 7, error: { name: 'exit_code' } })
  })
})

describe('tmux: a session that ends before the answer to its launch', () => {
  const launch = (script: string): Promise<{ status: number; body: Json }> =>
    server.call('POST', '/api/agents', {
      body: { type: 'command', prompt: '', placement: 'tmux', configuration: { command: shell(script) } },
    })

  it.each([
    ['with an error', 'echo words; exit 3', 'exit code 3'],
    ['without one line of output', 'exit 0', 'without one line'],
  ])('%s is a failed launch, which is rolled back', async (_, script, why) => {
    const { status, body } = await launch(script)
    expect({ status, code: body.code }).toEqual({ status: 500, code: 'launch_failed' })
    expect(body.message).toContain(why)
    expect(await server.get('/api/agents')).toEqual([])
    expect(await server.get('/api/cleanup/status')).toMatchObject({ isClean: true })
    expect(sessionsOf(server.home)).toEqual([])
  })

  it('with exit code 0 and output is a success', async () => {
    const { status, body } = await launch('echo quick')
    expect(status).toBe(201)
    expect(await ended(body.id)).toMatchObject({ status: 'completed' })
    expect(await contents(body.id)).toEqual(['quick'])
  })

  it('with exit code 0 and output on stderr is a success', async () => {
    const { status, body } = await launch('echo quick >&2')
    expect(status).toBe(201)
    expect(await ended(body.id)).toMatchObject({ status: 'completed' })
  })

  it('is not started when tmux is not installed, and the error says so', async () => {
    const bin = temporaryHome()
    writeFileSync(join(bin, 'thing'), '#!/bin/sh\nexit 0\n', { mode: 0o755 })
    const configuration = { command: [join(bin, 'thing')], env: { PATH: bin } }
    const { status, body } = await server.call<Json>('POST', '/api/agents', {
      body: { type: 'command', prompt: '', placement: 'tmux', configuration },
    })
    expect({ status, code: body.code }).toEqual({ status: 400, code: 'launch_refused' })
    expect(body.message).toContain('tmux')
  })
})

it('tmux: the shell of a pane exits when its pipes do not exist, and creates nothing in their place', () => {
  const folder = temporaryHome()
  const [orders, events] = [join(folder, 'a.orders'), join(folder, 'a.events')]
  const start = () => spawnSync('/bin/sh', ['-c', waitForOrders, 'ebb-pane', orders, events], { timeout: 10_000 })
  expect(start()).toMatchObject({ status: 125, signal: null })
  execFileSync('mkfifo', [orders])
  expect(start()).toMatchObject({ status: 125, signal: null })
  expect(readdirSync(folder)).toEqual(['a.orders'])
})

describe("tmux: foreign actions on Ebb's tmux server (G4, G10)", () => {
  const lasting = `trap '' HUP; echo ready; while :; do sleep 0.1; done`

  it('a renamed session is found', async () => {
    const id = await inTmux(shell('echo ready; exec sleep 1000'))
    await says(id, 'ready')
    tmux(server.home, 'rename-session', '-t', `=agent_${await nameOf(id)}`, 'somebody')
    expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
    expect(sessionsOf(server.home)).toEqual([])
  })

  it('foreign sessions with similar or equal names are not touched', async () => {
    const id = await inTmux(shell('echo ready; exec sleep 1000'))
    await says(id, 'ready')
    const name = `agent_${await nameOf(id)}`
    tmux(server.home, 'rename-session', '-t', `=${name}`, 'moved')
    for (const foreign of [name, `${name}0`, 'agent_']) tmux(server.home, 'new-session', '-d', '-s', foreign, 'sleep 1000')
    try {
      expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
      expect(
        sessionsOf(server.home)
          .map((session) => session.name)
          .sort(),
      ).toEqual(['agent_', name, `${name}0`].sort())
    } finally {
      tmux(server.home, 'kill-server')
    }
  })

  it.each([
    ['its session is killed', (home: string, name: string) => void tmux(home, 'kill-session', '-t', `=agent_${name}`)],
    ['the server is killed', (home: string) => process.kill(tmuxServerPid(home), 'SIGKILL')],
    ['the server is asked to end', (home: string) => void tmux(home, 'kill-server')],
  ])('an agent that ignores SIGHUP is ended and keeps its last output when %s', async (_, disturb) => {
    const id = await inTmux(shell(`trap '' HUP; echo ready; until [ ! -t 1 ] && false; do echo tick; sleep 0.02; done`))
    await says(id, 'tick')
    disturb(server.home, await nameOf(id))
    expect(await ended(id)).toMatchObject({ status: 'failed' })
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ error: { name: 'session_lost' } })
    expect(agentProcesses(server.home)).toEqual([])
    const archived = readFileSync(join(server.home, 'archive', id, 'stdout.log'), 'utf8')
    expect(await contents(id)).toEqual(archived.trimEnd().split('\n'))
  })

  it('a killed tmux server leaves its socket behind, and the next launch starts a new server', async () => {
    const first = await inTmux(shell(lasting))
    await says(first, 'ready')
    process.kill(tmuxServerPid(server.home), 'SIGKILL')
    await ended(first)
    const second = await inTmux(shell('echo again; exec sleep 1000'))
    await says(second, 'again')
    expect(sessionsOf(server.home)).toHaveLength(1)
  })

  it.each([
    ['after the check whether it listens', 1],
    ['while it creates the session', 2],
  ])('a launch uses a new tmux server when the old one dies %s', async (_, callers) => {
    const first = await inTmux(shell('echo ready; exec sleep 1000'))
    await says(first, 'ready')
    const pid = tmuxServerPid(server.home)
    // The stopped tmux server accepts no connection. The check whether it listens, and the launch itself, wait at its socket.
    process.kill(pid, 'SIGSTOP')
    const connections = (): number => readFileSync('/proc/net/unix', 'utf8').split(`${server.home}/tmux.sock\n`).length
    const before = connections()
    const launched = inTmux(shell('echo again; exec sleep 1000'))
    const arrived = waitUntil(() => connections() >= before + callers, 10_000, 'the launch waits for the server')
    await arrived.finally(() => process.kill(pid, 'SIGKILL'))
    await says(await launched, 'again')
    expect(sessionsOf(server.home)).toHaveLength(1)
    const health = await server.get('/api/health')
    const cgroupOf = (process: number): string => readFileSync(`/proc/${process}/cgroup`, 'utf8')
    if (health.containment === 'cgroup') expect(cgroupOf(tmuxServerPid(server.home))).not.toBe(cgroupOf(health.pid))
  })

  it('a stopped tmux server makes its sessions unknown, not absent, and the close is retried', async () => {
    const id = await inTmux(shell('echo ready; exec sleep 1000'))
    await says(id, 'ready')
    const pid = tmuxServerPid(server.home)
    process.kill(pid, 'SIGSTOP')
    try {
      const report = await server.post(`/api/agents/${id}/stop`, { force: true })
      expect(report.success).toBe(false)
      // The stopped tmux server does not list its sessions, so the absence of a session cannot be observed for other agents either.
      const plain = await server.command(['sleep', '1000'])
      expect(await server.post(`/api/agents/${plain}/stop`)).toMatchObject({ success: false })
      expect(await server.get(`/api/agents/${id}/process`)).toMatchObject({ processes: [] })
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await server.post('/api/reaper/run', {})
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'terminated' })
  }, 40_000)

  it('an agent whose pane was killed is ended, with an unknown exit', async () => {
    const id = await inTmux(shell(lasting))
    await says(id, 'ready')
    const [pane] = sessionsOf(server.home)
    if (!pane) throw new Error('There is no pane.')
    process.kill(pane.panePid, 'SIGKILL')
    expect(await ended(id)).toMatchObject({ status: 'failed' })
    expect(processes().filter(({ argv }) => argv.includes(id))).toEqual([])
  })
})
