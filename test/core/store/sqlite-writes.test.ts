import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import type { Ledger } from '../../../src/core/ports/ledger.ts'
import { realClock } from '../../../src/host/clock.ts'
import { openSqliteLedger } from '../../../src/store/sqlite/store.ts'
import { nodeProgram, root, temporaryHome } from '../../support/home.ts'
import { tmpfs } from '../../support/mounts.ts'
import { needs } from '../../support/real.ts'
import { commitsInWal } from '../../support/wal.ts'
import { incarnation, intent, openAgent, scope } from './records.ts'

/** The durability of ledger writes when the file is locked, the disk is full, or the writer is killed. */

const open = (file: string, busyBudgetMs = 10_000): Promise<Ledger> => openSqliteLedger({ file, clock: realClock, busyBudgetMs })
const newFile = (): string => join(temporaryHome(), 'ledger.db')
const fixture = (name: string): string => join(root, 'test', 'fixtures', `${name}.ts`)
const nodeOptions = ['--disable-warning=ExperimentalWarning']

describe('SQLite ledger: a locked database', () => {
  /** Holds an open write transaction, as another process would. */
  function lock(file: string): { release(): void } & Disposable {
    const db = new DatabaseSync(file)
    db.exec('BEGIN IMMEDIATE')
    const release = (): void => {
      if (db.isOpen) db.close()
    }
    return { release, [Symbol.dispose]: release }
  }

  it('write: waits without blocking the event loop, and succeeds after the unlock', async () => {
    const file = newFile()
    await using ledger = await open(file)
    using locked = lock(file)
    let isWritten = false
    const write = ledger.register(incarnation('i1')).then(() => {
      isWritten = true
    })
    const gaps = await timerGaps(40)
    expect(isWritten).toBe(false)
    // A busy timeout inside SQLite would block the event loop for five seconds.
    expect(Math.max(...gaps)).toBeLessThan(4_800)
    locked.release()
    await write
    expect(await ledger.incarnations()).toHaveLength(1)
  })

  it('write: rejects with ledger_busy after its budget, and the ledger still works', async () => {
    const file = newFile()
    await using ledger = await open(file, 50)
    using locked = lock(file)
    const refusal = ledger.register(incarnation('i1'))
    await expect(refusal).rejects.toMatchObject({ code: 'ledger_busy', message: expect.stringContaining('locked by another process') })
    locked.release()
    await ledger.register(incarnation('i2'))
    expect((await ledger.incarnations()).map(({ id }) => id)).toEqual(['i2'])
  })

  it('read: succeeds during the lock', async () => {
    const file = newFile()
    await using ledger = await open(file)
    await ledger.register(incarnation('i1'))
    using locked = lock(file)
    expect(await ledger.incarnations()).toHaveLength(1)
    locked.release()
  })

  it('open: waits for the unlock', async () => {
    const file = newFile()
    new DatabaseSync(file).close()
    using locked = lock(file)
    const opening = open(file)
    await timerGaps(5)
    locked.release()
    await using ledger = await opening
    expect(await ledger.incarnations()).toEqual([])
  })

  /** The times between timers that were due every millisecond: a blocked event loop shows as a long gap. */
  async function timerGaps(count: number): Promise<readonly number[]> {
    const gaps: number[] = []
    for (let last = performance.now(); gaps.length < count; ) {
      await new Promise((resolve) => setTimeout(resolve, 1))
      gaps.push(performance.now() - last)
      last = performance.now()
    }
    return gaps
  }
})

describe('SQLite ledger: group commit', () => {
  it('writes of one turn share a commit; sequential writes have one commit each', async () => {
    const file = newFile()
    await using ledger = await open(file)
    await openAgent(ledger)
    const before = commitsInWal(file)
    await Promise.all(Array.from({ length: 50 }, (_, index) => ledger.intend('agent', [intent('agent', index + 1)])))
    expect(commitsInWal(file) - before).toBe(1)
    for (let index = 51; index <= 55; index++) await ledger.intend('agent', [intent('agent', index)])
    expect(commitsInWal(file) - before).toBe(6)
  })

  it('a write resolves only after the commit, so another connection sees it', async () => {
    const file = newFile()
    await using ledger = await open(file)
    using reader = new DatabaseSync(file, { readOnly: true })
    const count = reader.prepare('SELECT count(*) AS n FROM scope')
    await ledger.open({ scopes: [scope('host-i1')] })
    const seen = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        await ledger.open({ scopes: [scope(`agent${index}`, 'host-i1')] })
        return Number(count.get()?.n)
      }),
    )
    expect(seen).toEqual(Array.from({ length: 20 }, () => 21))
  })
})

describe('SQLite ledger: sync to the disk', () => {
  needs('strace')

  /** Counts the fsync and fdatasync calls of a process that writes `each` intents in each of `turns` turns. */
  function syncs(turns: number, each: number): number {
    const folder = temporaryHome()
    const trace = join(folder, 'trace')
    const words = [...nodeOptions, fixture('writes-intents'), join(folder, 'ledger.db'), String(turns), String(each)]
    execFileSync('strace', ['-f', '-qq', '-o', trace, '-e', 'trace=fsync,fdatasync', nodeProgram, ...words])
    return readFileSync(trace, 'utf8')
      .split('\n')
      .filter((line) => /f(data)?sync\(/.test(line)).length
  }

  it('each turn of writes causes one sync, whatever its number of writes', () => {
    const none = syncs(0, 0)
    expect(syncs(8, 1) - none).toBe(8)
    expect(syncs(1, 40) - none).toBe(1)
  })

  it('writes that need not survive a power cut are not synced: incarnations, scopes, holds and process outcomes', () => {
    // Only fdatasync calls count. SQLite itself calls fsync a few times in the life of a WAL, whatever is written.
    expect(ledgerUnder(['-e', 'trace=fdatasync'], 'crash').syncs).toEqual([])
  })

  it('an intent that must survive a power cut resolves only after the sync, and rejects when the sync fails', () => {
    expect(ledgerUnder(['-e', 'trace=fdatasync'], 'power-cut').said).toEqual(['intended'])
    const broken = ledgerUnder(['-e', 'trace=fdatasync', '-e', 'inject=fdatasync:error=EIO'], 'power-cut')
    expect(broken.said).toEqual([expect.stringMatching(/^ledger_unavailable: .*EIO/)])
    // The kernel reports a failed write only once, so a second sync by SQLite would appear to succeed.
    const once = ledgerUnder(['-e', 'trace=fdatasync', '-e', 'inject=fdatasync:error=EIO:when=1'], 'power-cut', 'inline', 'twice')
    expect(once.said).toEqual([expect.stringMatching(/EIO/), expect.stringMatching(/EIO/)])
  })

  it('the sync runs in a thread of the pool after syncBeside', () => {
    const inline = ledgerUnder(['-e', 'trace=fdatasync'], 'power-cut')
    expect(inline.syncs).toEqual([inline.pid])
    const beside = ledgerUnder(['-e', 'trace=fdatasync'], 'power-cut', 'beside')
    expect(beside.said).toEqual(['intended'])
    expect(beside.syncs).toHaveLength(1)
    expect(beside.syncs).not.toContain(beside.pid)
  })

  /** Runs the fixture under strace. Returns its output, its pid, and the threads that called fdatasync after the database was created. */
  function ledgerUnder(words: readonly string[], ...mode: readonly string[]): { said: string[]; pid: string; syncs: string[] } {
    const folder = temporaryHome()
    const [file, trace] = [join(folder, 'ledger.db'), join(folder, 'trace')]
    new DatabaseSync(file).close()
    const run = (through: readonly string[], ...last: readonly string[]): string => {
      const [program = '', ...rest] = [...through, nodeProgram, ...nodeOptions, fixture('lives-on-the-books'), file, ...last]
      return execFileSync(program, rest, { encoding: 'utf8' })
    }
    run([], 'open')
    const [pid = '', ...said] = run(['strace', '-f', '-qq', '-o', trace, ...words], ...mode)
      .trim()
      .split('\n')
    const syncs = readFileSync(trace, 'utf8')
      .split('\n')
      .filter((line) => /f(data)?sync\(/.test(line))
    return { said, pid, syncs: syncs.map((line) => line.split(' ')[0] ?? '') }
  }
})

describe('SQLite ledger: a full disk', () => {
  needs('root')

  it('write: rejects with a message, keeps every resolved write, and succeeds when there is space again', async () => {
    using disk = tmpfs(temporaryHome(), '1m')
    const file = join(disk.point, 'ledger.db')
    await using ledger = await open(file)
    await openAgent(ledger)
    const filler = join(disk.point, 'filler')
    fill(filler)
    const { promised, refusal } = await writeUntilRefused(ledger)
    expect(refusal).toMatchObject({ code: 'ledger_unavailable', message: expect.stringContaining('free some space') })
    const ids = (await ledger.contents()).resources.map(({ id }) => id)
    expect(ids.toSorted()).toEqual(promised.toSorted())
    rmSync(filler)
    await ledger.intend('agent', [intent('agent', 9_999)])
    expect((await ledger.contents()).resources).toHaveLength(promised.length + 1)
  })

  it('first open: rejects with a message, and succeeds when there is space again', async () => {
    using disk = tmpfs(temporaryHome(), '256k')
    const filler = join(disk.point, 'filler')
    fill(filler)
    const file = join(disk.point, 'ledger.db')
    await expect(open(file)).rejects.toMatchObject({
      code: 'ledger_unavailable',
      message: expect.stringMatching(/ledger\.db cannot be opened/),
    })
    rmSync(filler)
    await using ledger = await open(file)
    expect(await ledger.incarnations()).toEqual([])
  })

  function fill(file: string): void {
    try {
      for (let content = Buffer.alloc(4_096); ; ) writeFileSync(file, content, { flag: 'a' })
    } catch {
      // The write failed with ENOSPC: the disk is full.
    }
  }

  async function writeUntilRefused(ledger: Ledger): Promise<{ promised: string[]; refusal: unknown }> {
    const promised: string[] = []
    for (let ordinal = 1; ordinal < 9_000; ordinal++) {
      const one = intent('agent', ordinal, { spec: { padding: 'x'.repeat(2_000) } })
      const refusal = await ledger.intend('agent', [one]).catch((error: unknown) => error)
      if (refusal !== undefined) return { promised, refusal }
      promised.push(one.id)
    }
    throw new Error('The disk never filled up.')
  }
})

describe('SQLite ledger: a killed writer', () => {
  it.each([1, 7, 40, 150, 400])('keeps every resolved write after %i writes', async (promises) => {
    const file = newFile()
    const child = spawn(nodeProgram, [...nodeOptions, fixture('writes-intents-until-killed'), file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const printed: string[] = []
    const ended = once(child, 'close')
    for await (const line of createInterface({ input: child.stdout })) {
      printed.push(line)
      if (printed.length === promises) child.kill('SIGKILL')
    }
    await ended
    await using ledger = await open(file)
    const kept = new Set((await ledger.contents()).resources.map(({ id }) => id))
    expect(printed.length).toBeGreaterThanOrEqual(promises)
    expect(printed.filter((id) => !kept.has(id))).toEqual([])
    // Each plan has two intents. Either both of them are in the ledger, or neither.
    const ordinals = [...kept].map((id) => Number(id.slice('agent.'.length)))
    expect(ordinals.filter((ordinal) => !kept.has(`agent.${ordinal % 2 ? ordinal + 1 : ordinal - 1}`))).toEqual([])
  })
})
