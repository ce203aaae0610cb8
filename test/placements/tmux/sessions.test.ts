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

/** Settles when the agent has said so. */
async function says(id: string, text: string): Promise<void> {
  for (let since = 1; ; ) {
    const news: Json[] = await server.get(`/api/agents/${id}/messages?since=${since}&wait=10000`)
    if (news.length === 0) throw new Error(`The agent never said ${text}.`)
    if (news.some(({ content }) => content.includes(text))) return
    since = news.at(-1).sequenceNumber
  }
}

async function nameOf(id: string): Promise<string> {
  return (await server.get(`/api/agents/${id}`)).name
}

describe('an agent in a session of its own (G1, G2, G3)', () => {
  it('is seen by whoever attaches, and by whoever reads its messages; both streams, its prompt, its folder, its environment', async () => {
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
    // What is in the log has been written to the terminal; tmux may still have to read it there.
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

  it('takes an environment that is larger than a pipe', async () => {
    const big = 'x'.repeat(100_000)
    const script = `echo "\${#BIG}"; exec sleep 1000`
    const id = await inTmux([], { configuration: { command: shell(script), env: { BIG: big } } })
    await says(id, '100000')
  })

  it('leaves nothing, whatever it started: setsid, nohup, and who ignores the hangup', async () => {
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

  it('takes with it the session that it made beside its own', async () => {
    // As nobody else on this machine does: it has no mark by which it could be told from another's.
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

  it('fifty at once, each with its own lines', async () => {
    const ids = await Promise.all(Array.from({ length: 50 }, (_, n) => inTmux(shell(`echo "number ${n}"; exec sleep 1000`))))
    await Promise.all(ids.map((id, n) => says(id, `number ${n}`)))
    expect(sessionsOf(server.home)).toHaveLength(50)
    const reports = await Promise.all(ids.map((id) => server.post(`/api/agents/${id}/stop`)))
    expect(reports.filter(({ success }) => !success)).toEqual([])
    expect(sessionsOf(server.home)).toEqual([])
    for (const [n, id] of ids.entries()) expect(await contents(id)).toEqual([`number ${n}`])
  }, 120_000)

  it('is told nothing by the name of its folder', async () => {
    const folder = join(temporaryHome(), '#(touch made-by-a-name)')
    mkdirSync(folder)
    const script = 'pwd; exec sleep 1000'
    const id = await inTmux([], { configuration: { command: shell(script), workingDirectory: folder } })
    await says(id, folder)
    expect(['/', folder].map((where) => existsSync(join(where, 'made-by-a-name')))).toEqual([false, false])
  })

  it('that has said all is well is completed, also when it must be shown the door', async () => {
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

  it('that ends by itself is completed or failed by its exit code', async () => {
    // An end before the answer would be a failed launch.
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

describe('a session that ends before its launch has answered', () => {
  const launch = (script: string): Promise<{ status: number; body: Json }> =>
    server.call('POST', '/api/agents', {
      body: { type: 'command', prompt: '', placement: 'tmux', configuration: { command: shell(script) } },
    })

  it.each([
    ['with an error', 'echo words; exit 3', 'exit code 3'],
    ['without one line of output', 'exit 0', 'without one line'],
  ])('%s is a failed launch, rolled back', async (_, script, why) => {
    const { status, body } = await launch(script)
    expect({ status, code: body.code }).toEqual({ status: 500, code: 'launch_failed' })
    expect(body.message).toContain(why)
    expect(await server.get('/api/agents')).toEqual([])
    expect(await server.get('/api/cleanup/status')).toMatchObject({ isClean: true })
    expect(sessionsOf(server.home)).toEqual([])
  })

  it('with success and something to say is a success', async () => {
    const { status, body } = await launch('echo quick')
    expect(status).toBe(201)
    expect(await ended(body.id)).toMatchObject({ status: 'completed' })
    expect(await contents(body.id)).toEqual(['quick'])
  })

  it('or something to complain about, on stderr', async () => {
    const { status, body } = await launch('echo quick >&2')
    expect(status).toBe(201)
    expect(await ended(body.id)).toMatchObject({ status: 'completed' })
  })

  it('tmux that is not installed is said before anything exists', async () => {
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

it('the shell of a pane whose pipes are gone ends, and makes nothing in their place', () => {
  const folder = temporaryHome()
  const [orders, events] = [join(folder, 'a.orders'), join(folder, 'a.events')]
  const start = () => spawnSync('/bin/sh', ['-c', waitForOrders, 'ebb-pane', orders, events], { timeout: 10_000 })
  expect(start()).toMatchObject({ status: 125, signal: null })
  execFileSync('mkfifo', [orders])
  expect(start()).toMatchObject({ status: 125, signal: null })
  expect(readdirSync(folder)).toEqual(['a.orders'])
})

describe('what others do to our tmux server (G4, G10)', () => {
  const lasting = `trap '' HUP; echo ready; while :; do sleep 0.1; done`

  it('a session that was renamed is found all the same', async () => {
    const id = await inTmux(shell('echo ready; exec sleep 1000'))
    await says(id, 'ready')
    tmux(server.home, 'rename-session', '-t', `=agent_${await nameOf(id)}`, 'somebody')
    expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
    expect(sessionsOf(server.home)).toEqual([])
  })

  it('foreign sessions whose names begin alike, or are the same, are not touched', async () => {
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
  ])('an agent that ignores the hangup is ended when %s, and its last words are kept', async (_, hit) => {
    const id = await inTmux(shell(`trap '' HUP; echo ready; until [ ! -t 1 ] && false; do echo tick; sleep 0.02; done`))
    await says(id, 'tick')
    hit(server.home, await nameOf(id))
    expect(await ended(id)).toMatchObject({ status: 'failed' })
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ error: { name: 'session_lost' } })
    expect(agentProcesses(server.home)).toEqual([])
    const archived = readFileSync(join(server.home, 'archive', id, 'stdout.log'), 'utf8')
    expect(await contents(id)).toEqual(archived.trimEnd().split('\n'))
  })

  it('a server that was killed leaves its socket behind, and the next launch starts another', async () => {
    const first = await inTmux(shell(lasting))
    await says(first, 'ready')
    process.kill(tmuxServerPid(server.home), 'SIGKILL')
    await ended(first)
    const second = await inTmux(shell('echo again; exec sleep 1000'))
    await says(second, 'again')
    expect(sessionsOf(server.home)).toHaveLength(1)
  })

  it.each([
    ['after somebody has asked whether it is there', 1],
    ['while it makes the session', 2],
  ])('a launch is made on the next server when this one leaves %s', async (_, callers) => {
    const first = await inTmux(shell('echo ready; exec sleep 1000'))
    await says(first, 'ready')
    const pid = tmuxServerPid(server.home)
    // It takes nobody in any more: whoever asks whether it listens, and then the launch itself, wait at its socket.
    process.kill(pid, 'SIGSTOP')
    const connections = (): number => readFileSync('/proc/net/unix', 'utf8').split(`${server.home}/tmux.sock\n`).length
    const before = connections()
    const launched = inTmux(shell('echo again; exec sleep 1000'))
    const arrived = waitUntil(() => connections() >= before + callers, 10_000, 'the launch waits for the server')
    await arrived.finally(() => process.kill(pid, 'SIGKILL'))
    await says(await launched, 'again')
    expect(sessionsOf(server.home)).toHaveLength(1)
    const health = await server.get('/api/health')
    const cgroupOf = (one: number): string => readFileSync(`/proc/${one}/cgroup`, 'utf8')
    if (health.containment === 'cgroup') expect(cgroupOf(tmuxServerPid(server.home))).not.toBe(cgroupOf(health.pid))
  })

  it('a server that is stopped gives no answer: unknown is not absent, and it is tried again', async () => {
    const id = await inTmux(shell('echo ready; exec sleep 1000'))
    await says(id, 'ready')
    const pid = tmuxServerPid(server.home)
    process.kill(pid, 'SIGSTOP')
    try {
      const report = await server.post(`/api/agents/${id}/stop`, { force: true })
      expect(report.success).toBe(false)
      // Nobody can say that there is no session of another agent either.
      const plain = await server.command(['sleep', '1000'])
      expect(await server.post(`/api/agents/${plain}/stop`)).toMatchObject({ success: false })
      expect(await server.get(`/api/agents/${id}/process`)).toMatchObject({ processes: [] })
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await server.post('/api/reaper/run', {})
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'terminated' })
  }, 40_000)

  it('whose pane was killed is ended, though nobody saw how', async () => {
    const id = await inTmux(shell(lasting))
    await says(id, 'ready')
    const [pane] = sessionsOf(server.home)
    if (!pane) throw new Error('There is no pane.')
    process.kill(pane.panePid, 'SIGKILL')
    expect(await ended(id)).toMatchObject({ status: 'failed' })
    expect(processes().filter(({ argv }) => argv.includes(id))).toEqual([])
  })
})
