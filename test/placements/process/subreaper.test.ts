import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, readlinkSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Child, Command, Effects } from '../../../src/core/ports/effects.ts'
import { fixture } from '../../support/fixtures.ts'
import { type Ended, ebb, ebbProgram, type Report, type RunningEbb, startEbb, temporaryHome } from '../../support/home.ts'
import { installationOf, leftInHome, openBooks } from '../../support/ledger-file.ts'
import { currentMark } from '../../support/mark.ts'
import { cgroupAvailable, needs } from '../../support/real.ts'
import { openSupervisor } from '../../support/supervisor.ts'
import { ownCgroup2, processes, processesOfHome, type Seen, seen, describe as show, survivors, waitUntil } from '../../support/world.ts'

/**
 * The subreaper process between a supervisor and its command: what it passes through, what it contains, and what the fallback scan does
 * when the subreaper process itself is killed. The zoo tests each kind of escape under this containment.
 */

needs('subreaper', 'gcc')

const deadlineMs = 10_000
const exec = (command: readonly string[], ...flags: readonly string[]): readonly string[] => [
  'exec',
  '--containment',
  'subreaper',
  '--grace',
  '300ms',
  ...flags,
  '--',
  ...command,
]
const sh = (script: string): readonly string[] => ['sh', '-c', script]

interface Running {
  readonly home: string
  readonly run: RunningEbb
  readonly subreaper: Seen
}

/** Starts a command and waits until it has printed `ready` and its tree is held in the ledger. */
async function started(command: readonly string[], ...flags: readonly string[]): Promise<Running> {
  const home = temporaryHome()
  const run = startEbb(exec(command, ...flags), { home, report: join(home, 'report.json') })
  await run.says('ready')
  await waitUntil(() => openBooks(home).some((line) => line.startsWith('held')), deadlineMs, 'it is held')
  return { home, run, subreaper: subreaperOf(home) }
}

function subreaperOf(home: string): Seen {
  const found = processesOfHome(home, installationOf(home)).filter(({ command }) => command === 'ebb-keeper')
  expect(found.map(show)).toHaveLength(1)
  return found[0] as Seen
}

function sentinelOf({ run }: Running): Seen {
  const sentinel = processes().find(({ ppid, argv }) => ppid === run.pid && argv.startsWith('ebb-sentinel\0'))
  expect(sentinel).toBeDefined()
  return sentinel as Seen
}

/** Returns the target of a descriptor. Empty when the descriptor is closed already. */
function linkOf({ pid }: Seen, fd: number | string): string {
  try {
    return readlinkSync(`/proc/${pid}/fd/${fd}`)
  } catch {
    return ''
  }
}

const childrenOf = ({ pid }: Seen): readonly Seen[] => processes().filter(({ ppid }) => ppid === pid)

function tree(ended: Ended): Report['resources'][number] | undefined {
  return ended.report?.resources.find(({ kind }) => kind === 'process-tree')
}

/**
 * Waits until nothing of the run is left: marked processes, processes with `marker` on the command line, files of the home, open ledger
 * entries.
 */
async function requireClean({ home, run }: Running, marker?: string): Promise<void> {
  const left = (): readonly string[] => [
    ...survivors(run.mark).map(show),
    ...processesOfHome(home, installationOf(home)).map(show),
    ...(marker === undefined ? [] : survivors(marker).map(show)),
    ...leftInHome(home),
    ...openBooks(home),
  ]
  await waitUntil(left, deadlineMs, 'the run leaves nothing behind')
}

function kill(target: Seen, signal: NodeJS.Signals): void {
  expect(seen(target.pid)?.startTime).toBe(target.startTime)
  process.kill(target.pid, signal)
}

describe('a subreaper process passes through', () => {
  it.each([0, 7, 255])('the exit code %i', async (code) => {
    const home = temporaryHome()
    const ended = await ebb(exec(sh(`exit ${code}`)), { home, report: join(home, 'report.json') })
    expect(ended).toMatchObject({ code, stderr: '' })
    expect(tree(ended)).toMatchObject({ outcome: 'released', proof: { strength: 'kernel' } })
    expect(leftInHome(home)).toEqual([])
  })

  it.each([
    ['TERM', 143],
    ['KILL', 137],
    ['SEGV', 139],
  ])('the death by SIG%s', async (name, code) => {
    expect(await ebb(exec(sh(`kill -${name} $$`)), { home: temporaryHome() })).toMatchObject({ code, stderr: '' })
  })

  it('standard input and output, and none of its own descriptors', async () => {
    const home = temporaryHome()
    const ended = await ebb(exec(sh('cat; ls -l /proc/self/fd')), { home, input: 'some words\n' })
    const [first, ...descriptors] = ended.stdout.toString('utf8').trim().split('\n')
    expect(first).toBe('some words')
    expect(descriptors.filter((line) => /\s([3-9]|\d\d+) -> socket/.test(line))).toEqual([])
  })

  it('further descriptors, under the same numbers', async () => {
    const home = temporaryHome()
    const script = 'printf "from three" >"$0/words"; exec 3<"$0/words" 4>"$0/out"; exec "$@"'
    const run = startEbb(exec(sh('cat <&3; echo to four >&4; echo ready; read -r _')), { home, through: ['sh', '-c', script, home] })
    await run.says('from threeready')
    const subreaper = subreaperOf(home)
    // The subreaper process closes its copies of the descriptors after the command has started, and thus perhaps after `ready`.
    const held = (): readonly string[] =>
      readdirSync(`/proc/${subreaper.pid}/fd`)
        .map((fd) => linkOf(subreaper, fd))
        .filter((path) => path.startsWith(home))
    await waitUntil(held, deadlineMs, 'the subreaper process has closed them')
    run.endInput()
    await run.ended
    expect(readFileSync(join(home, 'out'), 'utf8')).toBe('to four\n')
  })

  it('a signal, to the command itself', async () => {
    const { run } = await started([fixture('prints-signals')])
    run.signal('SIGUSR1')
    await run.says('got USR1')
    run.signal('SIGTERM')
    expect(await run.ended).toMatchObject({ code: 41, stderr: '' })
  })

  it('an environment and a command line of 100 KB each', async () => {
    const long = 'ä'.repeat(50_000)
    const ended = await ebb(exec(sh('printf %s "$LONG$0"').concat(long)), { home: temporaryHome(), env: { LONG: long } })
    expect(ended.stdout.toString('utf8')).toBe(long + long)
  })

  it('a terminal, with its Ctrl-C', async (context) => {
    if (spawnSync('sh', ['-c', 'command -v script']).status !== 0) context.skip('needs script(1)')
    const report = join(temporaryHome(), 'report.json')
    const command = `${ebbProgram} exec --containment subreaper --report ${report} -- ${fixture('prints-signals')}`
    const home = temporaryHome()
    const terminal = spawn('script', ['-qefc', `test -t 0 && exec ${command}`, '/dev/null'], { env: { ...process.env, EBB_HOME: home } })
    let text = ''
    terminal.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8')
    })
    const code = new Promise((resolve) => terminal.once('close', resolve))
    await waitUntil(() => text.includes('ready'), deadlineMs, 'the command runs on the terminal')
    terminal.stdin.write('\x03')
    expect(await code).toBe(42)
    expect(text).toContain('got INT')
    expect(JSON.parse(readFileSync(report, 'utf8'))).toMatchObject({ resources: [{ proof: { strength: 'kernel' } }] })
  })
})

describe('a subreaper process', () => {
  it('holds no stream of its command, and has its own process name', async () => {
    const { run, subreaper } = await started(sh('echo ready; read -r _'))
    // The subreaper process closes its copies of the streams after the command has started, and thus perhaps after `ready`.
    const held = (): readonly string[] => [0, 1, 2].map((fd) => linkOf(subreaper, fd)).filter((path) => path !== '/dev/null')
    await waitUntil(held, deadlineMs, 'the subreaper process has closed them')
    expect(subreaper.argv.replaceAll('\0', '')).toBe('ebb-keeper')
    run.endInput()
    expect(await run.ended).toMatchObject({ code: 1 })
  })

  it('ignores signals that are meant for the command', async () => {
    const { run, subreaper } = await started(sh('echo ready; read -r _; echo still here'))
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGTSTP'] as const) kill(subreaper, signal)
    run.child.stdin?.write('go on\n')
    await run.says('still here')
    const ended = await run.ended
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    expect(tree(ended)).toMatchObject({ proof: { strength: 'kernel' } })
  })

  it('reaps the orphans that it adopts while the command runs', async () => {
    const { run, subreaper } = await started(sh('for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.0$i &); done; echo ready; read -r _'))
    const zombies = (): readonly string[] =>
      readdirSync('/proc').filter((name) => {
        const stat = /^\d+$/.test(name) ? readStat(name) : ''
        return stat.startsWith(`Z ${subreaper.pid} `)
      })
    await waitUntil(() => childrenOf(subreaper).length === 1 && zombies().length === 0, deadlineMs, 'the orphans are gone')
    run.endInput()
    await run.ended
  })

  it('is the only process that loads koffi', async () => {
    const home = temporaryHome()
    const run = startEbb(['exec', '--containment', 'scan', '--', ...sh('echo ready; read -r _')], { home })
    await run.says('ready')
    expect(readFileSync(`/proc/${run.pid}/maps`, 'latin1')).not.toContain('koffi')
    run.endInput()
    await run.ended
    const other = await started(sh('echo ready; read -r _'))
    expect(readFileSync(`/proc/${other.run.pid}/maps`, 'latin1')).not.toContain('koffi')
    expect(readFileSync(`/proc/${other.subreaper.pid}/maps`, 'latin1')).toContain('koffi')
    other.run.endInput()
    await other.run.ended
  })
})

describe('G2: no descendant of a subreaper process outlives it', () => {
  it('a daemon without environment, session or parent is gone when ebb exits', async () => {
    const marker = `${currentMark()}daemon`
    const { run } = await started([fixture('daemonizes-without-environment'), fixture('waits'), marker])
    await waitUntil(() => survivors(marker).some(({ environ }) => environ === ''), deadlineMs, 'the daemon runs')
    run.endInput()
    const ended = await run.ended
    expect(survivors(marker).map(show)).toEqual([])
    expect(ended.code).toBe(0)
    expect(tree(ended)).toMatchObject({ outcome: 'released', proof: { strength: 'kernel' } })
  })

  it('a chain of forks is gone when ebb exits, eight times out of eight', async () => {
    const runOnce = async (): Promise<void> => {
      const { run, home } = await started([fixture('hops-from-fork-to-fork')])
      run.endInput()
      const ended = await run.ended
      expect(processesOfHome(home, installationOf(home)).filter(({ command }) => command.startsWith('hops'))).toEqual([])
      expect(tree(ended)).toMatchObject({ outcome: 'released', proof: { strength: 'kernel' } })
    }
    for (let times = 0; times < 4; times++) await Promise.all([runOnce(), runOnce()])
  })

  it('a stopped subreaper process is continued for the kill', async () => {
    const { run, subreaper } = await started(sh('trap "" TERM; echo ready; read -r _'))
    kill(subreaper, 'SIGSTOP')
    run.signal('SIGTERM')
    const ended = await run.ended
    expect(ended).toMatchObject({ code: 137 })
    expect(tree(ended)).toMatchObject({ outcome: 'released', proof: { strength: 'kernel' } })
  })
})

it('a subreaper process that was stopped before it reported the start of the command is continued', async () => {
  let stopped = 0
  const stopSubreaper = <T extends object>(port: T): T => {
    const { spawn } = port as unknown as Effects
    const spawnAndStop = async (command: Command): Promise<Child> => {
      const child = await spawn(command)
      if (command.argv[0] !== 'ebb-keeper') return child
      stopped += 1
      process.kill(child.pid, 'SIGSTOP')
      return child
    }
    return Object.assign(Object.create(port) as T, { spawn: spawnAndStop })
  }
  await using supervisor = await openSupervisor({
    flags: { containment: 'subreaper' },
    wrap: (name, port) => (name === 'effects' ? stopSubreaper(port) : port),
  })
  const { tree: handle } = await supervisor.run(['/bin/sh', '-c', 'exit 7'])
  expect([stopped, await handle.exit]).toMatchObject([1, { code: 7 }])
})

describe('G3: a killed subreaper process proves nothing', () => {
  it('the fallback scan ends the command and its daemon, and ebb exits with 125', async () => {
    const running = await started([fixture('daemonizes')])
    kill(running.subreaper, 'SIGKILL')
    const ended = await running.run.ended
    expect(ended.code).toBe(125)
    expect(tree(ended)).toMatchObject({ outcome: 'released', proof: { strength: 'scan' } })
    await requireClean(running)
  })

  it('a frozen subreaper process is ended together with its tree', async (context) => {
    const parent = cgroupAvailable() ? ownCgroup2() : undefined
    if (parent === undefined) return context.skip('needs a cgroup v2 to freeze the subreaper process in')
    const { run, subreaper } = await started(sh('trap "" TERM; echo ready; read -r _'))
    using _ = frozen(join(parent, `frozen-${currentMark()}`), subreaper)
    run.signal('SIGTERM')
    const ended = await run.ended
    expect(ended.code).toBe(125)
    expect(tree(ended)).toMatchObject({ outcome: 'released', proof: { strength: 'scan' } })
  })

  it('a subreaper process that is killed before it starts the command makes the launch fail, and leaves nothing', async () => {
    const home = temporaryHome()
    const run = startEbb(exec(sh('echo never; sleep 60')), { home })
    const find = (): Seen | undefined => processesOfHome(home, installationOf(home)).find(({ argv }) => argv.startsWith('ebb-keeper'))
    await waitUntil(() => find() !== undefined, deadlineMs, 'the subreaper process starts')
    const subreaper = find()
    if (subreaper) process.kill(subreaper.pid, 'SIGKILL')
    expect(await run.ended).toMatchObject({ code: 125 })
    expect([...leftInHome(home), ...openBooks(home)]).toEqual([])
  })
})

describe('G9: after a kill of the supervisor', () => {
  it('the subreaper process ends a chain of forks', async () => {
    const running = await started([fixture('hops-from-fork-to-fork')])
    running.run.signal('SIGKILL')
    await requireClean(running)
  })

  it('the subreaper process ends a daemon without environment', async () => {
    const marker = `${currentMark()}daemon`
    const running = await started([fixture('daemonizes-without-environment'), fixture('waits'), marker])
    running.run.signal('SIGKILL')
    await requireClean(running, marker)
  })

  it('and of its sentinel, the subreaper process ends the tree, and "ebb recover" closes the ledger entries', async () => {
    const marker = `${currentMark()}daemon`
    const running = await started([fixture('daemonizes-without-environment'), fixture('waits'), marker])
    const { home, run } = running
    // The supervisor is stopped before its sentinel is killed, because otherwise it would start another sentinel.
    run.signal('SIGSTOP')
    kill(sentinelOf(running), 'SIGKILL')
    run.signal('SIGKILL')
    await waitUntil(() => [...survivors(marker), ...survivors(run.mark)].map(show), deadlineMs, 'the subreaper process ends the tree')
    expect(openBooks(home)).not.toEqual([])
    expect(await ebb(['recover'], { home })).toMatchObject({ code: 0 })
    await requireClean(running, marker)
  })

  it('the recovery continues a stopped subreaper process', async () => {
    const marker = `${currentMark()}daemon`
    const running = await started([fixture('daemonizes-without-environment'), fixture('waits'), marker])
    kill(running.subreaper, 'SIGSTOP')
    running.run.signal('SIGKILL')
    await requireClean(running, marker)
  })

  it('and of the subreaper process, the recovery finds the tree by its environment tag', async () => {
    const running = await started([fixture('daemonizes')])
    running.run.signal('SIGSTOP')
    kill(running.subreaper, 'SIGKILL')
    running.run.signal('SIGKILL')
    await requireClean(running)
  })
})

/** Freezes a process in a cgroup: SIGCONT does not continue it, SIGKILL ends it. */
function frozen(directory: string, { pid }: Seen): Disposable {
  mkdirSync(directory)
  writeFileSync(join(directory, 'cgroup.procs'), String(pid))
  writeFileSync(join(directory, 'cgroup.freeze'), '1')
  return { [Symbol.dispose]: () => rmdirSync(directory) }
}

/** State and parent of a process, zombies included. */
function readStat(pid: string): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat.slice(stat.lastIndexOf(')') + 2)
  } catch {
    return ''
  }
}
