import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { fixture } from '../../support/fixtures.ts'
import { ebb, ebbProgram, startEbb, temporaryHome } from '../../support/home.ts'
import { installationOf, openBooks } from '../../support/ledger-file.ts'
import { currentMark, markVariable } from '../../support/mark.ts'
import { needs } from '../../support/real.ts'
import { cgroupsOf, processesOfHome, seen, survivors, waitUntil } from '../../support/world.ts'

/** `ebb exec` passes exit code, streams, environment and signals of the command through. */

needs('gcc')

const exec = (command: readonly string[], flags: readonly string[] = []): readonly string[] => ['exec', ...flags, '--', ...command]
const sh = (script: string): readonly string[] => ['sh', '-c', script]

describe('ebb exec: exit code', () => {
  it('is the exit code of the command', async () => {
    const codes = [0, 1, 7, 125, 255]
    const ends = await Promise.all(codes.map((code) => ebb(exec(sh(`exit ${code}`)), { home: temporaryHome() })))
    expect(ends.map(({ code, stderr }) => ({ code, stderr }))).toEqual(codes.map((code) => ({ code, stderr: '' })))
  })

  it('is 128+n for a command that died of signal n', async () => {
    const names = ['TERM', 'KILL', 'SEGV', 'USR1']
    const ends = await Promise.all(names.map((name) => ebb(exec(sh(`kill -${name} $$`)), { home: temporaryHome() })))
    expect(ends.map(({ code }) => code)).toEqual([143, 137, 139, 138])
  })

  it('is 124 after --timeout', async () => {
    const ended = await ebb(exec(['sleep', '60'], ['--timeout', '300ms']), { home: temporaryHome() })
    expect(ended).toMatchObject({ code: 124, stderr: '' })
  })

  it('is 124 after --timeout, also when the command then exits with 0', async () => {
    const script = 'trap "exit 0" TERM; while :; do sleep 0.05; done'
    expect(await ebb(exec(sh(script), ['--timeout', '500ms']), { home: temporaryHome() })).toMatchObject({ code: 124 })
  })

  it('does not wait for --timeout or --grace when the command has exited', async () => {
    expect(await ebb(exec(sh('exit 4'), ['--timeout', '1h', '--grace', '1h']), { home: temporaryHome() })).toMatchObject({ code: 4 })
  })
})

describe('ebb exec: streams', () => {
  it('pass through unchanged', async () => {
    const bytes = randomBytes(3_000_000)
    const ended = await ebb(exec(['cat']), { home: temporaryHome(), input: bytes })
    expect(ended.code).toBe(0)
    expect(ended.stdout.equals(bytes)).toBe(true)
  })

  it('stdout and stderr stay separate', async () => {
    const ended = await ebb(exec(sh('printf out; printf err >&2')), { home: temporaryHome() })
    expect(ended).toMatchObject({ stdout: Buffer.from('out'), stderr: 'err' })
  })

  it('lose nothing when a command opens /dev/stdout again', async () => {
    // The standard output must be a pipe, which the shell provides. Node would provide a socket, which cannot be opened again.
    const through = ['sh', '-c', '"$@" | cat', 'sh']
    const ended = await ebb(exec([fixture('prints-a-thousand-lines')]), { home: temporaryHome(), through })
    const lines = Array.from({ length: 1_000 }, (_, index) => `line ${index + 1}\n`)
    expect(ended.stdout.toString()).toBe(`${lines.join('')}x\n`)
  })

  it('an open standard input does not delay the exit of a command that reads nothing', async () => {
    const run = startEbb(exec(['true']), { home: temporaryHome() })
    expect((await run.ended).code).toBe(0)
  })

  it('--report - writes the report to stderr, not to stdout', async () => {
    const home = temporaryHome()
    const ended = await ebb(exec(['echo', 'hello'], ['--report', '-']), { home })
    expect(ended.stdout.toString()).toBe('hello\n')
    expect(JSON.parse(ended.stderr)).toMatchObject({ success: true, trigger: 'completed' })
  })
})

describe('ebb exec: environment', () => {
  it('passes through unchanged, plus EBB_SCOPE', async () => {
    const odd = {
      'BASH_FUNC_x%%': '() { echo hi\nA=b\n}',
      'npm_config_//registry.example/:_authToken': 'secret=1',
      'with-dash': 'a',
      EMPTY: '',
      QUOTES: `it's "quoted" $HOME \`x\` \\`,
      NEWLINES: 'one\ntwo\n',
      UNICODE: 'Ebbe 🌊',
      PS1: 'prompt',
      OLDPWD: '/tmp',
      _: '/bin/x',
      // A shell corrects a wrong PWD, so the test sets the right one.
      PWD: process.cwd(),
    }
    const home = temporaryHome()
    const ended = await ebb(exec(['env', '-0']), { home, env: { ...odd, [markVariable]: currentMark() } })
    const seenBy = new Map(ended.stdout.toString().split('\0').filter(Boolean).map(splitAtEquals))
    const mark = seenBy.get('EBB_SCOPE')
    seenBy.delete('EBB_SCOPE')
    expect(Object.fromEntries(seenBy)).toEqual({ ...process.env, EBB_HOME: home, [markVariable]: currentMark(), ...odd })
    expect(mark).toMatch(new RegExp(`^${installationOf(home)}/`))
  })

  it('the command has the working directory of the caller', async () => {
    const home = temporaryHome()
    expect((await ebb(exec(['pwd']), { home, cwd: home })).stdout.toString()).toBe(`${home}\n`)
  })

  it('the command gets exactly its arguments', async () => {
    const words = ['', ' ', '--', '-x', '$HOME', '*', "it's", 'a\nb', '"']
    const ended = await ebb(exec(['printf', '%s\\0', ...words]), { home: temporaryHome() })
    expect(ended.stdout.toString().split('\0').slice(0, -1)).toEqual(words)
  })
})

function splitAtEquals(pair: string): readonly [string, string] {
  const at = pair.indexOf('=')
  return [pair.slice(0, at), pair.slice(at + 1)]
}

describe('ebb exec: signals', () => {
  it.each([
    ['SIGTERM', 41],
    ['SIGINT', 42],
    ['SIGHUP', 43],
    ['SIGQUIT', 44],
  ] as const)('%s reaches the command, which may exit with its own code', async (signal, code) => {
    const run = startEbb(exec([fixture('prints-signals')], ['--grace', '60s']), { home: temporaryHome() })
    await run.says('ready')
    run.signal(signal)
    const ended = await run.ended
    expect(ended).toMatchObject({ code, stderr: '' })
    expect(ended.stdout.toString()).toBe(`ready\ngot ${signal.slice(3)}\n`)
  })

  it('SIGUSR1 and SIGUSR2 reach the command and do not end it', async () => {
    const run = startEbb(exec([fixture('prints-signals')]), { home: temporaryHome() })
    await run.says('ready')
    run.signal('SIGUSR1')
    await run.says('got USR1')
    run.signal('SIGUSR2')
    await run.says('got USR2')
    run.endInput()
    expect(await run.ended).toMatchObject({ code: 0, stdout: Buffer.from('ready\ngot USR1\ngot USR2\n') })
  })

  it('during the start of the command are not lost', async () => {
    const script = 'trap "exit 7" TERM; kill -TERM $PPID; while :; do sleep 0.05; done'
    expect(await ebb(exec(sh(script), ['--grace', '60s']), { home: temporaryHome() })).toMatchObject({ code: 7, signal: null })
  })

  it('a command that ignores SIGTERM is killed after the grace period, and not before', async () => {
    const run = startEbb(exec([fixture('ignores-sigterm'), fixture('waits')], ['--grace', '600ms']), { home: temporaryHome() })
    await run.says('ready')
    const sentAt = performance.now()
    run.signal('SIGTERM')
    expect(await run.ended).toMatchObject({ code: 137 })
    expect(performance.now() - sentAt).toBeGreaterThan(600)
  })

  it('the grace period is given once: the close continues the one that the signal has started', async () => {
    const home = temporaryHome()
    const report = join(home, 'report.json')
    const run = startEbb(exec([fixture('ignores-sigterm'), fixture('waits')], ['--grace', '3s']), { home, report })
    await run.says('ready')
    run.signal('SIGTERM')
    const ended = await run.ended
    const steps = ended.report?.resources.flatMap((resource) => resource.steps) ?? []
    const gentleMs = steps.filter(({ step }) => step !== 'kill').reduce((sum, { took }) => sum + took, 0)
    // The command has used half of the grace period before the close. A close that gave the whole grace period again would make the
    // total 3,000 ms.
    expect(gentleMs).toBeGreaterThan(0)
    expect(gentleMs).toBeLessThan(2_900)
  })

  it('repeated signals force the end', async () => {
    const run = startEbb(exec([fixture('ignores-sigterm'), fixture('waits')], ['--grace', '60s']), { home: temporaryHome() })
    await run.says('ready')
    // The second signal begins the close, and the third one forces it. The three signals differ, because the kernel merges pending signals
    // that are equal.
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) run.signal(signal)
    expect(await run.ended).toMatchObject({ code: 137, stderr: '' })
  })
})

describe('ebb exec: many runs on one home', () => {
  it('run in parallel, each with its own exit code', async () => {
    const home = temporaryHome()
    const codes = Array.from({ length: 20 }, (_, index) => index)
    const ends = await Promise.all(codes.map((code) => ebb(exec(sh(`sleep 0.1 & exit ${code}`)), { home, deadlineMs: 50_000 })))
    expect(ends.map(({ code, stderr }) => ({ code, stderr }))).toEqual(codes.map((code) => ({ code, stderr: '' })))
    // A run that cannot record its end in time leaves the record to its sentinel.
    await waitUntil(() => [...openBooks(home), ...cgroupsOf(installationOf(home))], 15_000, 'ledger and cgroups are empty')
  })

  it('are not affected when one of them is killed and recovered', async () => {
    const home = temporaryHome()
    const [victim, other] = [1, 2].map(() => startEbb(exec([fixture('ignores-sigterm'), fixture('waits')]), { home }))
    if (!victim || !other) throw new Error('The test needs two runs.')
    await Promise.all([victim.says('ready'), other.says('ready')])
    const others = survivors(other.mark).filter(({ ppid }) => ppid === other.pid)
    victim.signal('SIGKILL')
    await waitUntil(() => openBooks(home).filter((line) => line.includes(`-${victim.pid}-`)), 10_000, 'the sentinel cleans up')
    expect(others.filter(({ pid, startTime }) => seen(pid)?.startTime === startTime)).toHaveLength(others.length)
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) other.signal(signal)
    expect(await other.ended).toMatchObject({ code: 137 })
  })
})

describe('ebb exec inside ebb exec', () => {
  needs('cgroup')

  it('a killed inner run is recovered while the outer one continues', async () => {
    const home = temporaryHome()
    const inner = [ebbProgram, 'exec', '--', fixture('ignores-sigterm'), fixture('waits')]
    // The outer command waits until the inner `ebb exec` is killed, prints its exit code, and runs until its input ends.
    const script = '"$@" </dev/null & echo "inner $!"; wait $!; echo "ended $?"; cat; exit 9'
    const run = startEbb(exec(['sh', '-c', script, 'sh', ...inner]), { home })
    await run.says('ready')
    const installation = installationOf(home) ?? ''
    const innerPid = Number(/inner (\d+)/.exec(run.output())?.[1])
    process.kill(innerPid, 'SIGKILL')
    await run.says('ended 137')
    await waitUntil(() => survivors(run.mark).filter(({ command }) => command === 'waits'), 10_000, 'the inner tree is gone')
    // The recovery of the inner run is a process of the outer run too, so it must end before the outer run ends.
    const others = (): readonly string[] =>
      openBooks(home).filter((line) => line.startsWith('incarnation') && !line.includes(`-${run.pid}-`))
    await waitUntil(others, 10_000, 'the ledger entries of the inner run are closed')
    run.endInput()
    expect(await run.ended).toMatchObject({ code: 9 })
    expect(cgroupsOf(installation)).toEqual([])
    expect(existsSync(join(home, 'ebb.db'))).toBe(true)
  })

  it('an inner run does not recover its dead outer run, which contains it, and leaves that to the sentinel', async () => {
    const home = temporaryHome()
    const script = 'echo ready; read -r _; "$@" </dev/null; echo "inner $?"; cat'
    const inner = [ebbProgram, 'exec', '--containment', 'scan', '--', 'sh', '-c', 'exit 3']
    const run = startEbb(exec(['sh', '-c', script, 'sh', ...inner], ['--containment', 'scan']), { home })
    await run.says('ready')
    // The sentinel is stopped, so that the inner run starts first.
    const sentinel = processesOfHome(home, installationOf(home)).find(({ argv }) => argv.startsWith('ebb-sentinel'))
    process.kill(sentinel?.pid ?? 0, 'SIGSTOP')
    run.signal('SIGKILL')
    run.child.stdin?.write('\n')
    await run.says('inner 3')
    process.kill(sentinel?.pid ?? 0, 'SIGCONT')
    await waitUntil(() => openBooks(home), 10_000, 'the sentinel cleans up')
    expect(survivors(run.mark)).toEqual([])
  })
})
