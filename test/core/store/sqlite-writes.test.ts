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

/** What a promise of the ledger is worth when the file is locked, the disk is full, or the writer is killed. */

const open = (file: string, busyBudgetMs = 10_000): Promise<Ledger> => openSqliteLedger({ file, clock: realClock, busyBudgetMs })
const newFile = (): string => join(temporaryHome(), 'ledger.db')
const fixture = (name: string): string => join(root, 'test', 'fixtures', `${name}.ts`)
const nodeOptions = ['--disable-warning=ExperimentalWarning']

describe('a locked database', () => {
  /** As another process would: a write transaction that is not finished. */
  function lock(file: string): { release(): void } & Disposable {
    const db = new DatabaseSync(file)
    db.exec('BEGIN IMMEDIATE')
    const release = (): void => {
      if (db.isOpen) db.close()
    }
    return { release, [Symbol.dispose]: release }
  }

  it('a write waits without blocking the event loop, and then succeeds', async () => {
    const file = newFile()
    await using ledger = await open(file)
    using locked = lock(file)
    let isWritten = false
    const write = ledger.register(incarnation('i1')).then(() => {
      isWritten = true
    })
    const gaps = await timerGaps(40)
    expect(isWritten).toBe(false)
    // A busy timeout inside SQLite would have held the loop for as long as the lock, which is for good, or for its five seconds.
    expect(Math.max(...gaps)).toBeLessThan(4_800)
    locked.release()
    await write
    expect(await ledger.incarnations()).toHaveLength(1)
  })

  it('a write that waited longer than its budget says who is to blame, and the ledger goes on working', async () => {
    const file = newFile()
    await using ledger = await open(file, 50)
    using locked = lock(file)
    const refusal = ledger.register(incarnation('i1'))
    await expect(refusal).rejects.toMatchObject({ code: 'ledger_busy', message: expect.stringContaining('locked by another process') })
    locked.release()
    await ledger.register(incarnation('i2'))
    expect((await ledger.incarnations()).map(({ id }) => id)).toEqual(['i2'])
  })

  it('reading goes on all the while', async () => {
    const file = newFile()
    await using ledger = await open(file)
    await ledger.register(incarnation('i1'))
    using locked = lock(file)
    expect(await ledger.incarnations()).toHaveLength(1)
    locked.release()
  })

  it('an open waits too', async () => {
    const file = newFile()
    new DatabaseSync(file).close()
    using locked = lock(file)
    const opening = open(file)
    await timerGaps(5)
    locked.release()
    await using ledger = await opening
    expect(await ledger.incarnations()).toEqual([])
  })

  /** How long the loop took between timers that were due every millisecond. */
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

describe('group commit', () => {
  it('writes of one turn are one commit; writes that wait for each other are one each', async () => {
    const file = newFile()
    await using ledger = await open(file)
    await openAgent(ledger)
    const before = commitsInWal(file)
    await Promise.all(Array.from({ length: 50 }, (_, index) => ledger.intend('agent', [intent('agent', index + 1)])))
    expect(commitsInWal(file) - before).toBe(1)
    for (let index = 51; index <= 55; index++) await ledger.intend('agent', [intent('agent', index)])
    expect(commitsInWal(file) - before).toBe(6)
  })

  it('nobody is told before the commit: what a promise says is what another process sees', async () => {
    const file = newFile()
    await using ledger = await open(file)
    using reader = new DatabaseSync(file, { readOnly: true })
    const count = reader.prepare('SELECT count(*) AS n FROM scope')
    await ledger.openScope(scope('host-i1'))
    const seen = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        await ledger.openScope(scope(`agent${index}`, 'host-i1'))
        return Number(count.get()?.n)
      }),
    )
    expect(seen).toEqual(Array.from({ length: 20 }, () => 21))
  })
})

describe('the disk', () => {
  needs('strace')

  /** System calls that make a file durable, in a process that writes so many times so many intents. */
  function syncs(turns: number, each: number): number {
    const folder = temporaryHome()
    const trace = join(folder, 'trace')
    const words = [...nodeOptions, fixture('writes-intents'), join(folder, 'ledger.db'), String(turns), String(each)]
    execFileSync('strace', ['-f', '-qq', '-o', trace, '-e', 'trace=fsync,fdatasync', nodeProgram, ...words])
    return readFileSync(trace, 'utf8')
      .split('\n')
      .filter((line) => /f(data)?sync\(/.test(line)).length
  }

  it('every turn of writes is synced to it once, however many writes it holds', () => {
    const none = syncs(0, 0)
    expect(syncs(8, 1) - none).toBe(8)
    expect(syncs(1, 40) - none).toBe(1)
  })

  it('nothing is synced for what dies with the machine: incarnations, scopes, what is held, what a process came to', () => {
    // SQLite itself syncs with fsync, a few times in the life of a log, whatever is in it; ours is fdatasync.
    expect(ledgerUnder(['-e', 'trace=fdatasync'], 'crash').syncs).toEqual([])
  })

  it('an intent that must outlive a power cut is promised only when it is on the disk', () => {
    expect(ledgerUnder(['-e', 'trace=fdatasync'], 'power-cut').said).toEqual(['intended'])
    const broken = ledgerUnder(['-e', 'trace=fdatasync', '-e', 'inject=fdatasync:error=EIO'], 'power-cut')
    expect(broken.said).toEqual([expect.stringMatching(/^ledger_unavailable: .*EIO/)])
    // The kernel says it once only: the second sync would seem to go well.
    const once = ledgerUnder(['-e', 'trace=fdatasync', '-e', 'inject=fdatasync:error=EIO:when=1'], 'power-cut', 'inline', 'twice')
    expect(once.said).toEqual([expect.stringMatching(/EIO/), expect.stringMatching(/EIO/)])
  })

  it('the event loop does not wait for it, once there are threads that can', () => {
    const inline = ledgerUnder(['-e', 'trace=fdatasync'], 'power-cut')
    expect(inline.syncs).toEqual([inline.pid])
    const beside = ledgerUnder(['-e', 'trace=fdatasync'], 'power-cut', 'beside')
    expect(beside.said).toEqual(['intended'])
    expect(beside.syncs).toHaveLength(1)
    expect(beside.syncs).not.toContain(beside.pid)
  })

  /** One life of an agent on the books, under strace: what it said, and which threads synced after the file was made. */
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

describe('a full disk', () => {
  needs('root')

  it('is said in a sentence, loses nothing that was promised, and is over when there is space again', async () => {
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

  it('a first open says so too, and works when there is space', async () => {
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
      // ENOSPC: that is what it is for.
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

describe('a writer that is killed', () => {
  it.each([1, 7, 40, 150, 400])('loses nothing that it promised, after %i promises', async (promises) => {
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
    // A plan is two intents, and is there whole or not at all.
    const ordinals = [...kept].map((id) => Number(id.slice('agent.'.length)))
    expect(ordinals.filter((ordinal) => !kept.has(`agent.${ordinal % 2 ? ordinal + 1 : ordinal - 1}`))).toEqual([])
  })
})
