import { mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fixture } from '../../support/fixtures.ts'
import { type Ended, ebb, type RunningEbb, startEbb, temporaryHome } from '../../support/home.ts'
import { installationOf, openBooks } from '../../support/ledger-file.ts'
import { currentMark } from '../../support/mark.ts'
import { tmpfs } from '../../support/mounts.ts'
import { cgroupAvailable, missing, needs } from '../../support/real.ts'
import { cgroupsOf, hierarchies, processesOfHome, type Seen, describe as show, survivors, waitUntil } from '../../support/world.ts'

/** G11 and G12: a kill needs only the kernel, the ledger is corrected later, and a process that cannot be killed is reported as stuck. */

needs('gcc')

const grace = ['--grace', '200ms'] as const
const stubborn = (): readonly string[] => [fixture('ignores-sigterm'), fixture('waits')]

function treeOf(run: RunningEbb): readonly Seen[] {
  return survivors(run.mark).filter(({ pid }) => pid !== run.pid)
}

function requireGone(run: RunningEbb, deadlineMs = 15_000): Promise<void> {
  return waitUntil(() => treeOf(run).map(show), deadlineMs, 'the tree is killed')
}

function controller(name: string): string {
  return hierarchies().find(({ version, controllers }) => version === 1 && controllers.includes(name))?.mountPoint ?? ''
}

/**
 * A run whose processes cannot be killed. It is started before the other tests of this file and checked in the last one, because Ebb tries
 * for ten seconds before it reports the processes as stuck.
 */
interface Stuck {
  readonly run: RunningEbb
  readonly home: string
  readonly freezer: string
  readonly exited: Promise<number | null>
}
let stuck: Stuck | undefined

beforeAll(async () => {
  if (missing('v1 freezer controller') !== undefined || missing('gcc') !== undefined) return
  const home = temporaryHome()
  const freezer = join(controller('freezer'), `ebb-test-${process.pid}`)
  mkdirSync(freezer)
  const run = startEbb(['exec', ...grace, '--', fixture('waits'), 'frozen'], { home, deadlineMs: 40_000 })
  const exited = new Promise<number | null>((resolve) => run.child.once('exit', resolve))
  stuck = { run, home, freezer, exited }
  const find = (): Seen | undefined => processesOfHome(home, installationOf(home)).find(({ command }) => command === 'waits')
  await waitUntil(() => find() !== undefined, 10_000, 'the command runs')
  writeFileSync(join(freezer, 'cgroup.procs'), String(find()?.pid))
  writeFileSync(join(freezer, 'freezer.state'), 'FROZEN')
  await waitUntil(() => readFileSync(join(freezer, 'freezer.state'), 'utf8') === 'FROZEN\n', 5_000, 'it is frozen')
  run.signal('SIGTERM')
})

afterAll(async () => {
  if (!stuck) return
  const { freezer } = stuck
  writeFileSync(join(freezer, 'freezer.state'), 'THAWED')
  await waitUntil(() => readFileSync(join(freezer, 'cgroup.procs'), 'utf8') === '', 10_000, 'the frozen process dies')
  rmdirSync(freezer)
})

describe('a locked database', () => {
  it('does not stop the kill, and the sentinel corrects the ledger when the lock is released', async () => {
    const home = temporaryHome()
    const run = startEbb(['exec', ...grace, '--', ...stubborn()], { home })
    await run.says('ready')
    // The database is locked only after the ledger records `held`, because a launch that cannot be recorded fails.
    await waitUntil(() => openBooks(home).some((line) => line.startsWith('held')), 15_000, 'the command is held')
    const db = new DatabaseSync(join(home, 'ebb.db'), { timeout: 5_000 })
    db.exec('BEGIN EXCLUSIVE')
    let refused: Ended
    try {
      run.signal('SIGTERM')
      const another = startEbb(['exec', '--', 'true'], { home })
      // A kill that waited for the ledger would take longer, because the ledger waits five seconds for a lock.
      await requireGone(run, 4_800)
      const ended = await run.ended
      expect(ended).toMatchObject({ code: 137 })
      expect(ended.stderr).toMatch(/The ledger could not be written/)
      refused = await another.ended
    } finally {
      db.close()
    }
    expect(refused).toMatchObject({ code: 125, stdout: Buffer.from('') })
    expect(refused.stderr.trim().split('\n').at(-1)).toMatch(/^ebb: The database is locked by another process/)
    await waitUntil(() => openBooks(home), 10_000, 'the sentinel closes the ledger entries')
  })
})

describe('a full disk', () => {
  needs('root')

  it('does not stop the kill, and a recovery corrects the ledger when there is space again', async () => {
    using disk = tmpfs(temporaryHome(), '2m')
    const home = disk.point
    const run = startEbb(['exec', ...grace, '--', ...stubborn()], { home })
    await run.says('ready')
    // Fill the disk only after the ledger has recorded `held`.
    await waitUntil(() => openBooks(home).some((line) => line.startsWith('held')), 5_000, 'it is held')
    fill(join(home, 'filler'))
    run.signal('SIGTERM')
    await requireGone(run)
    const ended = await run.ended
    expect(ended).toMatchObject({ code: 137 })
    expect(ended.stderr).toMatch(/The ledger could not be written .*full/)
    await waitUntil(() => processesOfHome(home, installationOf(home)).map(show), 10_000, 'the sentinel has tried')
    expect(openBooks(home)).not.toEqual([])
    rmSync(join(home, 'filler'))
    expect(await ebb(['recover'], { home })).toMatchObject({ code: 0 })
    expect(openBooks(home)).toEqual([])
  })
})

function fill(file: string): void {
  for (let size = 65_536; size >= 1; size = Math.floor(size / 4)) {
    try {
      for (;;) writeFileSync(file, Buffer.alloc(size), { flag: 'a' })
    } catch {
      // The full disk has no room for a block of this size. A smaller block may still fit.
    }
  }
}

describe('a home that was deleted', () => {
  it('does not stop the kill', async () => {
    const home = temporaryHome()
    const run = startEbb(['exec', ...grace, '--', ...stubborn()], { home })
    await run.says('ready')
    const installation = installationOf(home) ?? ''
    rmSync(home, { recursive: true })
    run.signal('SIGTERM')
    await requireGone(run)
    expect(await run.ended).toMatchObject({ code: 137 })
    await waitUntil(() => [...processesOfHome(home, installation).map(show), ...cgroupsOf(installation)], 5_000, 'nothing is left')
  })
})

describe('no pid left', () => {
  needs('v1 pids controller')

  it.each(['cgroup', 'scan'] as const)('does not stop the kill under %s', async (containment) => {
    if (containment === 'cgroup' && !cgroupAvailable()) return
    await withPidsLimit(async (through) => {
      const home = temporaryHome()
      const run = startEbb(['exec', ...grace, '--containment', containment, '--', fixture('takes-every-pid')], { home, through })
      await run.says('ready')
      run.signal('SIGTERM')
      expect(await run.ended).toMatchObject({ code: 143, stderr: '' })
      expect({ left: treeOf(run).map(show), contents: openBooks(home) }).toEqual({ left: [], contents: [] })
    })
  })

  it('does not stop the sentinel', async () => {
    if (!cgroupAvailable()) return
    await withPidsLimit(async (through) => {
      const home = temporaryHome()
      const run = startEbb(['exec', ...grace, '--', fixture('takes-every-pid')], { home, through })
      await run.says('ready')
      run.signal('SIGKILL')
      await requireGone(run)
      await run.ended
      await waitUntil(() => openBooks(home), 10_000, 'the sentinel closes the ledger entries')
    })
  })
})

/** Lets the test start a command in its own v1 cgroup with at most sixty tasks: enough for a Node, a sentinel and few more. */
async function withPidsLimit(test: (through: readonly string[]) => Promise<void>): Promise<void> {
  const directory = join(controller('pids'), `ebb-test-${currentMark()}`)
  mkdirSync(directory)
  writeFileSync(join(directory, 'pids.max'), '60')
  try {
    await test(['sh', '-c', 'echo $$ >"$0/cgroup.procs" && exec "$@"', directory])
  } finally {
    await waitUntil(() => readFileSync(join(directory, 'cgroup.procs'), 'utf8') === '', 5_000, 'the limited processes are gone')
    rmdirSync(directory)
  }
}

describe('a process that the kernel does not let die', () => {
  needs('v1 freezer controller')

  it('is stuck in the exit code, in the message and in ebb status, until it is gone', async () => {
    if (!stuck) throw new Error('The frozen run was not started.')
    const { run, home, freezer, exited } = stuck
    // The frozen process holds the streams open, so only the exit event can be awaited.
    expect(await exited).toBe(3)
    expect(run.errorOutput()).toMatch(/not everything could be released[^\n]*\n {2}process-tree waits/)
    const status = await ebb(['status'], { home })
    expect(status).toMatchObject({ code: 3 })
    expect(status.stdout.toString()).toMatch(/^The system is not clean: 1 stuck[^\n]*\.\n/)
    expect(status.stdout.toString()).toMatch(/^stuck .*process-tree waits/m)
    writeFileSync(join(freezer, 'freezer.state'), 'THAWED')
    // The sentinel has tried to end the process since the exit of its supervisor. The next recovery finishes what the sentinel could not.
    await waitUntil(() => processesOfHome(home, installationOf(home)).map(show), 15_000, 'the sentinel has finished')
    expect(await ebb(['recover'], { home })).toMatchObject({ code: 0 })
    expect(await ebb(['status'], { home })).toMatchObject({ code: 0, stdout: Buffer.from('The system is clean.\n') })
  })
})
