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

/** G11 and G12: killing needs nothing but the kernel, the books are put right later, and what cannot be killed is shown. */

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

/** Begun before the other tests of this file and looked at in the last: the kernel is asked for ten seconds before we say stuck. */
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
  await waitUntil(() => readFileSync(join(freezer, 'cgroup.procs'), 'utf8') === '', 10_000, 'the frozen one dies')
  rmdirSync(freezer)
})

describe('a locked database', () => {
  it('does not stop the kill, and the sentinel puts the books right when it is free again', async () => {
    const home = temporaryHome()
    const run = startEbb(['exec', ...grace, '--', ...stubborn()], { home })
    await run.says('ready')
    // What is not on the books as held yet is a launch, and a launch that cannot be written fails.
    await waitUntil(() => openBooks(home).some((line) => line.startsWith('held')), 15_000, 'the command is held')
    const db = new DatabaseSync(join(home, 'ebb.db'), { timeout: 5_000 })
    db.exec('BEGIN EXCLUSIVE')
    let refused: Ended
    try {
      run.signal('SIGTERM')
      const another = startEbb(['exec', '--', 'true'], { home })
      // Sooner than a kill could come that waits for the ledger, which gives up a lock after five seconds.
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
    await waitUntil(() => openBooks(home), 10_000, 'the sentinel closes the books')
  })
})

describe('a full disk', () => {
  needs('root')

  it('does not stop the kill, and a recovery puts the books right when there is space again', async () => {
    using disk = tmpfs(temporaryHome(), '2m')
    const home = disk.point
    const run = startEbb(['exec', ...grace, '--', ...stubborn()], { home })
    await run.says('ready')
    // The ledger has said "held" when the books show it; from then on there is no byte left to write.
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
      // No room for that much; for less there may be.
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
      await waitUntil(() => openBooks(home), 10_000, 'the sentinel closes the books')
    })
  })
})

/** Runs what starts a command in a v1 cgroup of its own, in which there may be sixty tasks: a Node, a sentinel, and few more. */
async function withPidsLimit(test: (through: readonly string[]) => Promise<void>): Promise<void> {
  const directory = join(controller('pids'), `ebb-test-${currentMark()}`)
  mkdirSync(directory)
  writeFileSync(join(directory, 'pids.max'), '60')
  try {
    await test(['sh', '-c', 'echo $$ >"$0/cgroup.procs" && exec "$@"', directory])
  } finally {
    await waitUntil(() => readFileSync(join(directory, 'cgroup.procs'), 'utf8') === '', 5_000, 'the limited ones are gone')
    rmdirSync(directory)
  }
}

describe('a process that the kernel does not let die', () => {
  needs('v1 freezer controller')

  it('is said to be stuck, by code, by name and by status, until it is gone', async () => {
    if (!stuck) throw new Error('it was not begun')
    const { run, home, freezer, exited } = stuck
    // The frozen one holds the streams: only the exit tells.
    expect(await exited).toBe(3)
    expect(run.errorOutput()).toMatch(/not everything could be released[^\n]*\n {2}process-tree waits/)
    const status = await ebb(['status'], { home })
    expect(status).toMatchObject({ code: 3 })
    expect(status.stdout.toString()).toMatch(/^The system is not clean: 1 stuck[^\n]*\.\n/)
    expect(status.stdout.toString()).toMatch(/^stuck .*process-tree waits/m)
    writeFileSync(join(freezer, 'freezer.state'), 'THAWED')
    // The sentinel has been at it since its supervisor left; whoever comes next finishes what it could not.
    await waitUntil(() => processesOfHome(home, installationOf(home)).map(show), 15_000, 'the sentinel has finished')
    expect(await ebb(['recover'], { home })).toMatchObject({ code: 0 })
    expect(await ebb(['status'], { home })).toMatchObject({ code: 0, stdout: Buffer.from('The system is clean.\n') })
  })
})
