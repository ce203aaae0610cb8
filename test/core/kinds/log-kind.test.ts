import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Composition } from '../../../src/supervisor.ts'
import { ebb, temporaryHome } from '../../support/home.ts'
import { hookOn } from '../../support/hooked.ts'
import { installationOf, leftInHome } from '../../support/ledger-file.ts'
import { startOther } from '../../support/other-supervisor.ts'
import { needs } from '../../support/real.ts'
import { openSupervisor, type Run, type TestSupervisor } from '../../support/supervisor.ts'
import { cgroupsOf, processesOfHome, type Seen, waitUntil } from '../../support/world.ts'

/** The output of a command: all of it is in the archive, or no log is removed (G8). */

const shell = (script: string): readonly string[] => ['/bin/sh', '-c', script]
const numbers = (from: number, to: number): string => Array.from({ length: to - from + 1 }, (_, index) => `${from + index}\n`).join('')
const open = (): Promise<TestSupervisor> => openSupervisor({ watched: false })

/** The collector processes between the command and its log files. */
function collectors({ home }: TestSupervisor): readonly Seen[] {
  return processesOfHome(home.directory, home.installation).filter(({ command }) => command === 'cat')
}

async function runToItsEnd(supervisor: TestSupervisor, argv: readonly string[]): Promise<Run> {
  const run = await supervisor.run(argv)
  await run.tree.exit
  return run
}

describe('archive of a log', () => {
  it('has every line, also those before a tool wrote to /dev/stdout', async () => {
    await using supervisor = await open()
    const run = await runToItsEnd(supervisor, shell('seq 1000; echo x > /dev/stdout; seq 1001 1010; echo oops >&2'))
    expect(await supervisor.engine.close(run.scope.id, { trigger: 'completed' })).toMatchObject({ success: true, gaveUp: [] })
    expect(readFileSync(run.stdout.archive, 'utf8')).toBe(`${numbers(1, 1_000)}x\n${numbers(1_001, 1_010)}`)
    expect(readFileSync(run.stderr.archive, 'utf8')).toBe('oops\n')
    expect(leftInHome(supervisor.home.directory)).toEqual([])
  })

  it('has every byte: NULs, binary data, and a line of ten megabytes', async () => {
    await using supervisor = await open()
    const content = Buffer.concat([
      Buffer.from([0, 255, 254, 10, 13, 0, 0x80]),
      Buffer.alloc(10 * 1_024 * 1_024, 'x'),
      randomBytes(300_000),
      Buffer.from([0]),
    ])
    const file = join(temporaryHome(), 'content')
    writeFileSync(file, content)
    const run = await runToItsEnd(supervisor, ['/bin/cat', file])
    await supervisor.engine.close(run.scope.id, { trigger: 'completed' })
    expect(readFileSync(run.stdout.archive).equals(content)).toBe(true)
  })

  it('has the output of a command that was killed', async () => {
    await using supervisor = await open()
    const run = await supervisor.run(shell('trap "" TERM; seq 2000; echo ready >&2; sleep 1000'))
    await waitUntil(() => readFileSync(run.stderr.path, 'utf8') === 'ready\n', 30_000, 'the command is ready')
    await supervisor.engine.close(run.scope.id, { trigger: 'terminated', force: true })
    expect(readFileSync(run.stdout.archive, 'utf8')).toBe(numbers(1, 2_000))
  })

  it('has an empty file for a stream without output', async () => {
    await using supervisor = await open()
    const run = await runToItsEnd(supervisor, ['/bin/true'])
    await supervisor.engine.close(run.scope.id, { trigger: 'completed' })
    expect(readdirSync(dirname(run.stdout.archive)).toSorted()).toEqual(['stderr.log', 'stdout.log'])
    expect(readFileSync(run.stdout.archive)).toHaveLength(0)
  })

  it.each([{ trigger: 'deleted' }, { trigger: 'completed', forget: true }] as const)(
    'is not made when the scope is closed with %j',
    async (closeRequest) => {
      await using supervisor = await open()
      const run = await runToItsEnd(supervisor, shell('echo secret'))
      expect(await supervisor.engine.close(run.scope.id, closeRequest)).toMatchObject({ success: true })
      expect(readdirSync(supervisor.home.archive)).toEqual([])
      expect(leftInHome(supervisor.home.directory)).toEqual([])
    },
  )
})

describe('collector', () => {
  it('is outside the cgroup of the agent, so that a kill does not end it before it has read everything', async () => {
    await using supervisor = await open()
    const run = await supervisor.run(['/bin/sleep', '1000'])
    const inside = ({ cgroups }: Seen): boolean => cgroups.includes(supervisor.home.installation)
    expect(collectors(supervisor).map(inside)).toEqual([false, false])
    await supervisor.engine.close(run.scope.id, { trigger: 'terminated', force: true })
    expect(collectors(supervisor)).toEqual([])
  })

  it('ends by itself when the last writer has ended, also when that is not the command', async () => {
    await using supervisor = await open()
    const run = await supervisor.run(shell('(sleep 0.2; echo late) & echo early'))
    for (const log of [run.stdout, run.stderr]) log.done()
    await run.tree.exit
    await waitUntil(() => collectors(supervisor), 30_000, 'the collectors end by themselves')
    expect(readFileSync(run.stdout.path, 'utf8')).toBe('early\nlate\n')
    await supervisor.engine.close(run.scope.id, { trigger: 'completed' })
  })

  it('has read the end of the stream before its log is archived', async () => {
    const alive: string[] = []
    await using supervisor = await openSupervisor({ watched: false, wrap: onMove(note) })
    function note(from: string): void {
      const id = /~(.*)\.log$/.exec(from)?.[1] ?? ''
      alive.push(...collectors(supervisor).flatMap(({ environ }) => (environ.includes(`/${id}\0`) ? [id] : [])))
    }
    const run = await runToItsEnd(supervisor, shell('seq 10'))
    expect(await supervisor.engine.close(run.scope.id, { trigger: 'completed' })).toMatchObject({ success: true })
    expect(alive).toEqual([])
  })

  it('is killed after a while when a foreign process holds the pipe open', async () => {
    await using supervisor = await open()
    const run = await runToItsEnd(supervisor, shell('seq 100'))
    await waitUntil(() => readFileSync(run.stdout.path, 'utf8') === numbers(1, 100), 30_000, 'the lines are in the log')
    const held = collectors(supervisor).map(({ pid }) => openSync(`/proc/${pid}/fd/0`, 'w'))
    const report = await supervisor.engine.close(run.scope.id, { trigger: 'completed' })
    for (const fd of held) closeSync(fd)
    expect(report).toMatchObject({ success: true })
    expect(report.duration).toBeLessThan(10_000)
    expect(readFileSync(run.stdout.archive, 'utf8')).toBe(numbers(1, 100))
  })

  it('leaves no process, file or descriptor when its creation fails at any effect', async () => {
    const descriptors = (): number => readdirSync('/proc/self/fd').length
    for (const broken of ['makePipe', 'openFile', 'closeFile', 'unlink', 'spawn']) {
      let failures = 0
      const wrap = hookOn('effects', (method) => {
        if (method === broken && failures-- > 0) throw new Error(`${broken} is broken`)
      })
      await using supervisor = await openSupervisor({ watched: false, wrap })
      await supervisor.engine.begin()
      const before = descriptors()
      failures = 1
      await expect(supervisor.run(['/bin/true'])).rejects.toThrow(`${broken} is broken`)
      expect([broken, descriptors()]).toEqual([broken, before])
      expect(leftInHome(supervisor.home.directory)).toEqual([])
    }
  })
})

/** Calls the hook before link(2) of a log, the first half of its move into the archive. */
function onMove(hook: (from: string) => void): NonNullable<Composition['wrap']> {
  return hookOn('effects', (method, args) => {
    if (method === 'link' && String(args[0]).endsWith('.log')) hook(String(args[0]))
  })
}

describe('an archive that cannot be written', () => {
  /** Puts a file at the path of the archive folder. */
  async function runWithBrokenArchive(supervisor: TestSupervisor): Promise<{ run: Run; obstacle: string }> {
    const run = await runToItsEnd(supervisor, shell('seq 50'))
    const obstacle = dirname(run.stdout.archive)
    writeFileSync(obstacle, 'in the way')
    return { run, obstacle }
  }

  it('holds the log back in report and status, and the next try archives it', async () => {
    await using supervisor = await open()
    const { run, obstacle } = await runWithBrokenArchive(supervisor)
    const report = await supervisor.engine.close(run.scope.id, { trigger: 'completed' })
    const logs = report.resources.filter(({ kind }) => kind === 'log')
    expect(report.success).toBe(false)
    expect(logs).toMatchObject([{ outcome: 'held-back', error: expect.stringContaining('archive of') }, { outcome: 'held-back' }])
    expect(readFileSync(run.stdout.path, 'utf8')).toBe(numbers(1, 50))
    const status = await ebb(['status', '--json'], { home: supervisor.home.directory })
    expect([status.code, JSON.parse(status.stdout.toString()).heldBack]).toEqual([
      3,
      [expect.stringContaining('log'), expect.stringContaining('log')],
    ])
    rmSync(obstacle)
    expect(await supervisor.engine.close(run.scope.id, { trigger: 'reaper' })).toMatchObject({ success: true })
    expect(readFileSync(run.stdout.archive, 'utf8')).toBe(numbers(1, 50))
    expect(leftInHome(supervisor.home.directory)).toEqual([])
  })

  describe('in an immutable folder', () => {
    needs('root')

    it('is reported with what to do', async () => {
      await using supervisor = await open()
      const run = await runToItsEnd(supervisor, shell('seq 50'))
      const folder = dirname(dirname(run.stdout.archive))
      mkdirSync(folder, { recursive: true })
      // With `chattr +i`, not even root can create a file in the folder.
      execFileSync('chattr', ['+i', folder])
      try {
        const report = await supervisor.engine.close(run.scope.id, { trigger: 'completed' })
        expect(report.errors.join()).toMatch(/archive of .*EPERM.*; allow Ebb to write there/)
      } finally {
        execFileSync('chattr', ['-i', folder])
      }
      expect(await supervisor.engine.close(run.scope.id, { trigger: 'reaper' })).toMatchObject({ success: true })
    })
  })

  it('is given up by force, and the report names the lost logs', async () => {
    await using supervisor = await open()
    const { run } = await runWithBrokenArchive(supervisor)
    const report = await supervisor.engine.close(run.scope.id, { trigger: 'terminated', force: true, deadlineMs: 500 })
    expect(report).toMatchObject({ success: true })
    expect(report.gaveUp).toHaveLength(2)
    expect(report.gaveUp.join()).toContain(run.stdout.path)
    expect(report.resources.filter(({ kind }) => kind === 'log')).toMatchObject([{ outcome: 'given-up' }, { outcome: 'given-up' }])
    expect(leftInHome(supervisor.home.directory)).toEqual([])
  })

  it('is retried until the deadline, also with force, and succeeds when it becomes possible', async () => {
    const tried = new Set<string>()
    await using supervisor = await openSupervisor({ watched: false, wrap: onMove((from) => tried.add(from)) })
    const { run, obstacle } = await runWithBrokenArchive(supervisor)
    const closing = supervisor.engine.close(run.scope.id, { trigger: 'terminated', force: true, deadlineMs: 30_000 })
    await waitUntil(() => tried.size === 2, 30_000, 'both have been tried')
    rmSync(obstacle)
    expect(await closing).toMatchObject({ success: true, gaveUp: [] })
    expect(readFileSync(run.stdout.archive, 'utf8')).toBe(numbers(1, 50))
  })
})

/** Whether standard error, which the command writes last, is `ready`. */
function hasPrintedReady(home: string): boolean {
  const live = join(home, 'logs')
  return readdirSync(live).some((name) => readFileSync(join(live, name), 'utf8') === 'ready\n')
}

describe.each(['cgroup', 'scan'] as const)('after a kill of the supervisor (%s)', (containment) => {
  needs(containment)

  it('the recovery archives the complete log', async () => {
    const home = temporaryHome()
    await using other = await startOther({ home, containment, argv: shell('seq 3000; echo ready >&2; sleep 1000') })
    await waitUntil(() => hasPrintedReady(home), 30_000, 'the command has printed everything')
    await other.kill()
    await waitUntil(() => leftInHome(home), 30_000, 'the sentinel has cleaned the home')
    await waitUntil(() => existsSync(other.archive), 30_000, 'the log is in the archive')
    expect(readFileSync(other.archive, 'utf8')).toBe(numbers(1, 3_000))
  })
})

describe('after a kill of the supervisor and the loss of the ledger', () => {
  needs('cgroup', 'v1 memory controller', 'v1 pids controller')

  it('the reaper archives the log and removes the limits', async () => {
    const home = temporaryHome()
    const limits = { memoryBytes: 64 * 1_024 * 1_024, pids: 20 }
    await using other = await startOther({ home, containment: 'cgroup', argv: shell('seq 50; echo ready >&2; sleep 1000'), limits })
    await waitUntil(() => hasPrintedReady(home), 30_000, 'the command has printed everything')
    for (const suffix of ['', '-wal', '-shm']) rmSync(join(home, `ebb.db${suffix}`))
    await other.kill()
    await waitUntil(() => processesOfHome(home, installationOf(home)), 30_000, 'the sentinel has done what it can')
    for (let sighting = 1; sighting <= 2; sighting++) await ebb(['reap', '--reaper-minimum-age', '0s'], { home })
    expect(readFileSync(join(home, 'archive', `${other.scopeId}.1.log`), 'utf8')).toBe(numbers(1, 50))
    expect(cgroupsOf(installationOf(home) ?? '')).toEqual([])
    expect(leftInHome(home)).toEqual([])
  })
})
