import { describe, expect, it } from 'vitest'
import { recognise } from '../../../src/doctor/judgement/agent-program.ts'
import { grouped, type Leftover, totalOf } from '../../../src/doctor/judgement/leftover.ts'
import { judgeProcess } from '../../../src/doctor/judgement/leftover-process.ts'
import { judgeSession } from '../../../src/doctor/judgement/leftover-session.ts'
import { lostParent } from '../../../src/doctor/judgement/lost-parent.ts'
import { maskedWords } from '../../../src/doctor/judgement/masked-words.ts'
import { childrenIn, type ProcessDetail, type ProcessFact, type ProcessScene } from '../../../src/doctor/judgement/process-fact.ts'

/** Tests the judgement on its own, for machines that the integration tests cannot provide: with systemd, or in a container. */

function fact(given: Partial<ProcessFact> & { readonly pid: number }): ProcessFact {
  const { pid } = given
  const usual = { ppid: 1, pgid: pid, sid: pid, tty: 0, uid: 1_000, command: 'claude', argv: ['/usr/bin/claude', '-p'] }
  return { ...usual, memoryBytes: 1_000, startedAtMs: 0, startTime: '100', ...given }
}

const systemd = fact({ pid: 1, ppid: 0, sid: 1, command: 'systemd', argv: ['/sbin/init'], uid: 0 })

const detail: ProcessDetail = {
  exe: '/usr/bin/claude',
  cwd: '/',
  environ: [],
  cgroups: '0::/user.slice/user-1000.slice/session-3.scope',
  isInOurPidNamespace: true,
  stdin: { is: 'null' },
  stdout: { is: 'pipe', others: 'none' },
  stderr: { is: 'null' },
  listens: false,
  isConnectedTo: false,
  talks: false,
  isOnDisplay: false,
  inner: undefined,
  hasEbbBelow: false,
}

function judged(
  one: ProcessFact,
  more: Partial<ProcessDetail> = {},
  others: readonly ProcessFact[] = [systemd],
  scene: Partial<ProcessScene> = {},
) {
  const all = [...others, one]
  const table = new Map(all.map((process) => [process.pid, process]))
  const usual = {
    table,
    children: childrenIn(all),
    agents: [],
    uid: 1_000,
    family: new Set<number>(),
    seesAll: true,
    nowMs: 5_000,
  }
  return judgeProcess(one, { ...detail, ...more }, { ...usual, ...scene })
}

describe('judgeProcess: an orphaned agent', () => {
  it('is sure when its output has no reader', () => {
    expect(judged(fact({ pid: 50 }))).toMatchObject({ sure: 'sure', ageMs: 5_000, kind: 'agent' })
  })

  it('is perhaps in use when any of its facts could not be read (G4)', () => {
    for (const unseen of [
      { environ: undefined },
      { cgroups: undefined },
      { isInOurPidNamespace: undefined },
      { stdout: { is: 'unknown' } },
      { stdin: { is: 'unknown' } },
      { stdout: { is: 'pipe', others: 'unknown' } },
      { stdout: { is: 'other' } },
      { listens: undefined },
    ] as const)
      expect(judged(fact({ pid: 50 }), unseen), JSON.stringify(unseen)).toMatchObject({ sure: 'perhaps', fixes: false })
  })

  it('is not a leftover when it is a service or a desktop application', () => {
    for (const cgroup of [
      '/system.slice/agent.service',
      '/user.slice/user-1000.slice/user@1000.service/app.slice/agent.service',
      '/system.slice/agent.service/worker',
      '/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-claude-12.scope',
    ])
      expect(judged(fact({ pid: 50 }), { cgroups: `3:cpu:/\n0::${cgroup}` }), cgroup).toBeUndefined()
  })

  it('is a leftover in the scope of a terminal, and directly below the user manager', () => {
    for (const cgroup of [
      '/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-terminal-7.scope',
      '/user.slice/user-1000.slice/user@1000.service',
    ])
      expect(judged(fact({ pid: 50 }), { cgroups: `0::${cgroup}` }), cgroup).toMatchObject({ fixes: true })
  })

  it('is only likely when pid 1 is not an init, because pid 1 may have started it', () => {
    const strange = fact({ pid: 1, ppid: 0, sid: 0, command: 'supervisor' })
    expect(judged(fact({ pid: 50 }), {}, [strange])).toMatchObject({ sure: 'likely' })
    expect(judged(fact({ pid: 50, sid: 40 }), {}, [strange])).toMatchObject({ sure: 'sure' })
  })

  it('is only likely in a container, because the reader of its pipe may be outside', () => {
    expect(judged(fact({ pid: 50 }), {}, [systemd], { seesAll: false })).toMatchObject({ sure: 'likely' })
  })
})

describe('lostParent', () => {
  const shell = fact({ pid: 10, ppid: 1, sid: 10, command: 'bash', argv: ['bash'] })
  const lost = (one: ProcessFact, ...others: readonly ProcessFact[]) =>
    lostParent(one, new Map([one, ...others].map((process) => [process.pid, process])))

  it('is undefined for a parent outside of the pid namespace, a living session, and a parent that is not in the table', () => {
    expect(lost(fact({ pid: 50, ppid: 0 }))).toBeUndefined()
    expect(lost(fact({ pid: 50, ppid: 10, sid: 10 }), shell)).toBeUndefined()
    expect(lost(fact({ pid: 50, ppid: 10 }), shell)).toBeUndefined()
    expect(lost(fact({ pid: 50, ppid: 77 }))).toBeUndefined()
    // The parent is a shell that is pid 1 of a container.
    expect(lost(fact({ pid: 50, ppid: 1, sid: 1 }), fact({ pid: 1, ppid: 0, sid: 1, command: 'sh' }))).toBeUndefined()
  })

  it('is proven after adoption by an init, by the user manager, or by any process when the session has ended', () => {
    const manager = fact({ pid: 20, sid: 20, command: 'systemd', argv: ['/lib/systemd/systemd', '--user'] })
    expect(lost(fact({ pid: 50 }), systemd)).toMatchObject({ isProven: true })
    expect(lost(fact({ pid: 50, ppid: 20 }), manager)).toMatchObject({ isProven: true })
    expect(lost(fact({ pid: 50, ppid: 10, sid: 40, pgid: 40 }), shell)).toMatchObject({ isProven: true })
  })
})

describe('lostParent: an init of a container', () => {
  const tini = fact({ pid: 1, ppid: 0, sid: 1, command: 'tini', startTime: '1' })
  const main = fact({ pid: 7, sid: 1, startTime: '5' })
  const table = (one: ProcessFact) => new Map([tini, main, one].map((process) => [process.pid, process]))

  it('adopts the orphans of its own session, except for the first process, which it started', () => {
    expect(lostParent(fact({ pid: 50, sid: 1 }), table(fact({ pid: 50, sid: 1 })))).toMatchObject({ isProven: true })
    expect(lostParent(main, table(fact({ pid: 50, sid: 1 })))).toBeUndefined()
  })
})

describe('judgeProcess: an MCP server', () => {
  const server = fact({ pid: 50, command: 'node', argv: ['node', '/x/node_modules/@modelcontextprotocol/server-git/index.js'] })
  const node = { exe: '/usr/bin/node' }

  it('is not a leftover when its input has a living writer: a pipe, a named pipe or a socket', () => {
    for (const is of ['pipe', 'named pipe', 'socket'] as const)
      expect(judged(server, { ...node, stdin: { is, others: 'living' } }), is).toBeUndefined()
    expect(judged(server, { ...node, stdin: { is: 'socket', others: 'none' } })).toMatchObject({ sure: 'sure' })
  })

  it('is likely when only its folder identifies it and its streams have no other ends', () => {
    const cut = { is: 'pipe', others: 'none' } as const
    const run = (script: string, cwd: string, more: Partial<ProcessDetail> = {}) =>
      judged(fact({ pid: 50, command: 'node', argv: ['node', script] }), { ...node, cwd, stdin: cut, stdout: cut, ...more })
    expect(run('build/index.js', '/home/me/weather-mcp')).toMatchObject({ kind: 'mcp-server', sure: 'likely' })
    expect(run('/home/me/mcp-weather/dist/server.js', '/')).toMatchObject({ kind: 'mcp-server', sure: 'likely' })
    expect(run('build/index.js', '/home/me/weather-mcp', { stdin: { is: 'null' } })).toBeUndefined()
    expect(run('build/index.js', '/home/me/weather-mcp', { stdout: { is: 'socket', others: 'living' } })).toBeUndefined()
    expect(run('build/index.js', '/home/me/mcp-client')).toBeUndefined()
    expect(run('webpack.js', '/home/me/weather-mcp')).toBeUndefined()
    expect(run('build/index.js', '/home/me/weather')).toBeUndefined()
  })

  it('is perhaps in use when it listens', () => {
    expect(judged(server, { ...node, listens: true })).toMatchObject({ sure: 'perhaps' })
  })
})

describe('judgeProcess: an agent with a network connection', () => {
  it('is perhaps in use when its output goes to /dev/null, and sure when its output has no reader', () => {
    expect(judged(fact({ pid: 50 }), { talks: true, stdout: { is: 'null' } })).toMatchObject({ sure: 'perhaps' })
    expect(judged(fact({ pid: 50 }), { talks: true })).toMatchObject({ sure: 'sure' })
    const environ = ['CLAUDECODE=1']
    expect(judged(fact({ pid: 50 }), { talks: true, stdout: { is: 'null' }, environ })).toMatchObject({ sure: 'sure' })
  })
})

describe('judgeSession: a session known by its name alone', () => {
  const hour = 3_600_000
  const judgedSession = (name: string, idleMs: number) => {
    const times = { createdAtMs: 0, activeAtMs: 10 * hour - idleMs }
    const shell = fact({ pid: 70, command: 'sh', argv: ['-sh'] })
    const panes = [{ isDead: false, pid: 70, startCommand: '' }]
    return judgeSession(
      { socket: '/s', serverPid: 60, id: '$1', name, isAttached: false, isMarked: false, ...times, panes },
      { table: new Map([[70, shell]]), children: new Map(), nowMs: 10 * hour },
    )
  }

  it('is likely when the name is generated and the session was unused for an hour', () => {
    for (const name of ['agent_builder-142530-1a2b3c', 'claude-1a2b', 'codex_1731780000'])
      expect(judgedSession(name, hour), name).toMatchObject({ sure: 'likely', fixes: true })
  })

  it('is perhaps in use when a person may have chosen the name, or it was used less than an hour ago', () => {
    for (const name of ['agent_notes', 'claude-2026', 'claude-20261116', 'claude-face', 'claude', 'agent_x'])
      expect(judgedSession(name, 9 * hour), name).toMatchObject({ sure: 'perhaps', fixes: false })
    const young = judgedSession('agent_builder-142530-1a2b3c', hour - 1_000)
    expect(young).toMatchObject({ sure: 'perhaps', fixes: false })
    expect(young?.evidence.join(' ')).toContain('less than an hour ago')
    expect(judgedSession('my-work-1a2b', 9 * hour)).toBeUndefined()
  })
})

describe('maskedWords', () => {
  it('masks secrets in command lines', () => {
    const cases: readonly (readonly [readonly string[], string])[] = [
      [['claude', '--api-key', 'abc', '-p', 'x'], 'claude --api-key *** -p x'],
      [['x', '--token=abc', 'GITHUB_TOKEN=abc', 'LANG=C'], 'x --token=*** GITHUB_TOKEN=*** LANG=C'],
      [['curl', '-H', 'Authorization: Bearer abc'], 'curl -H Authorization: ***'],
      [['x', 'sk-ant-api03-AbCdEfGh123', 'postgres://me:pw@host/db'], 'x *** postgres://***@host/db'],
      [['sh', '-c', 'export OPENAI_API_KEY="abc" && run {"apiKey":"abc"}'], 'sh -c export OPENAI_API_KEY="***" && run {"apiKey":"***"}'],
      [['bash', '-c', 'cd x && deploy --token abc123secret now'], 'bash -c cd x && deploy --token *** now'],
      [['bash', '-c', 'deploy --auth --token abc123secret'], 'bash -c deploy --auth *** ***'],
      [['curl', '-u', 'me:hunter2', '--user', 'me:hunter2', '-u', 'me', 'x'], 'curl -u *** --user *** -u me x'],
      [['sh', '-c', 'curl -u me:hunter2 --user=me:hunter2 -ume:hunter2 x'], 'sh -c curl -u *** --user=*** -u*** x'],
      [['curl', '-ume:hunter2', '--user=me:hunter2'], 'curl -u*** --user=***'],
      [['/usr/bin/sshpass', '-p', 'hunter2', 'ssh', 'host'], '/usr/bin/sshpass -p *** ssh host'],
      [['sshpass', '-phunter2', 'ssh', 'host'], 'sshpass -p*** ssh host'],
      [['sh', '-c', 'sshpass -p hunter2 ssh host; mysql -u me -phunter2 db'], 'sh -c sshpass -p *** ssh host; mysql -u me -p*** db'],
      [['x', '--token', '-abc', '--token', '--password', 'hunter2'], 'x --token *** --token *** ***'],
      [['sh', '-c', `PASSWORD='a b c' x`], 'sh -c PASSWORD=***'],
      [['sh', '-c', `export PASSWORD='a b c' TOKEN="d e" KEY=f\\ g h'i j'`], `sh -c export PASSWORD='***' TOKEN="***" KEY=*** h'i j'`],
      [['sh', '-c', `run --token 'a b c' --password "d e`], `sh -c run --token '***' --password "***"`],
      [['env', 'PASSWORD=a b c', 'x'], 'env PASSWORD=*** x'],
    ]
    for (const [words, shown] of cases) expect(maskedWords(words)).toBe(shown)
  })

  it('cuts long command lines, and is fast for hostile ones', () => {
    for (const long of ['word '.repeat(1_000_000), 'a-'.repeat(1_000_000), 'x=:'.repeat(700_000), '/node_modules/a'.repeat(100_000)]) {
      const began = performance.now()
      expect(maskedWords(['claude', long, ...Array.from({ length: 10_000 }, () => long)]).length).toBeLessThanOrEqual(160)
      expect(recognise(['node', long], '/usr/bin/node')).toBeUndefined()
      expect(performance.now() - began).toBeLessThan(10_000)
    }
  })
})

it('leftovers: grouped by kind, the most certain and then the oldest first, with totals', () => {
  const base = {
    what: '',
    evidence: [],
    since: null,
    processes: [{ pid: 1, startTime: '1' }],
    paths: [],
    fixes: true,
    fix: '',
    sizeBytes: 2,
    memoryBytes: 3,
  }
  const all: Leftover[] = [
    { ...base, id: 'a', kind: 'tool', sure: 'likely', ageMs: 5 },
    { ...base, id: 'b', kind: 'agent', sure: 'perhaps', ageMs: 9 },
    { ...base, id: 'c', kind: 'tool', sure: 'sure', ageMs: 1 },
    { ...base, id: 'd', kind: 'tool', sure: 'likely', ageMs: 6 },
  ]
  expect(grouped(all).map(([kind, found]) => [kind, found.map(({ id }) => id).join('')])).toEqual([
    ['agent', 'b'],
    ['tool', 'cda'],
  ])
  expect(totalOf(all)).toEqual({ count: 4, processes: 4, memoryBytes: 12, sizeBytes: 8 })
})
