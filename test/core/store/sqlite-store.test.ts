import { execFile } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { describe, expect, it, vi } from 'vitest'
import type { Ledger } from '../../../src/core/ports/ledger.ts'
import { realClock } from '../../../src/host/clock.ts'
import { migrations } from '../../../src/store/sqlite/migrations.ts'
import { openDatabase } from '../../../src/store/sqlite/open.ts'
import { openSqliteLedger } from '../../../src/store/sqlite/store.ts'
import { ebb, nodeProgram, root, temporaryHome } from '../../support/home.ts'
import { incarnation } from './records.ts'

/** Tests how the file is opened, and which files are refused. The conformance suite tests the ledger itself. */

const open = (file: string): Promise<Ledger> => openSqliteLedger({ file, clock: realClock, busyBudgetMs: 2_000 })
const newFile = (): string => join(temporaryHome(), 'ledger.db')
const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8)

function userVersion(file: string): unknown {
  using db = new DatabaseSync(file)
  return db.prepare('PRAGMA user_version').get()?.user_version
}

describe('SQLite store: open', () => {
  it('a new file gets every migration', async () => {
    const file = newFile()
    await using ledger = await open(file)
    expect(await ledger.incarnations()).toEqual([])
    expect(userVersion(file)).toBe(migrations.length)
  })

  it('a file without any migration is migrated', async () => {
    const file = newFile()
    // The state after a kill between the creation of the file and its first migration.
    new DatabaseSync(file).close()
    await using ledger = await open(file)
    expect(await ledger.incarnations()).toEqual([])
    expect(userVersion(file)).toBe(migrations.length)
  })

  it('every open uses WAL with synchronous NORMAL, because the ledger syncs the log itself', async () => {
    const file = newFile()
    for (let times = 0; times < 2; times++) {
      using db = await openDatabase(file, realClock, 2_000)
      expect(db.prepare('PRAGMA synchronous').get()).toEqual({ synchronous: 1 })
      expect(db.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' })
      expect(db.prepare('PRAGMA foreign_keys').get()).toEqual({ foreign_keys: 1 })
    }
  })

  it('only the owner can read the file and its helper files, whatever the umask', async () => {
    const file = newFile()
    const before = process.umask(0)
    try {
      await using ledger = await open(file)
      await ledger.register(incarnation('i1'))
      for (const suffix of ['', '-wal', '-shm']) expect([suffix, mode(file + suffix)]).toEqual([suffix, '600'])
    } finally {
      process.umask(before)
    }
  })

  it('a file that others can read becomes private when it is opened', async () => {
    const file = newFile()
    await (await open(file))[Symbol.asyncDispose]()
    chmodSync(file, 0o644)
    await using ledger = await open(file)
    await ledger.register(incarnation('i1'))
    for (const suffix of ['', '-wal', '-shm']) expect([suffix, mode(file + suffix)]).toEqual([suffix, '600'])
  })

  it('a file that another process migrates meanwhile is not migrated twice', async () => {
    const file = newFile()
    const exec = vi.spyOn(DatabaseSync.prototype, 'exec')
    let others: Promise<Ledger> | undefined
    exec.mockImplementation(function (this: DatabaseSync, sql: string) {
      exec.mockRestore()
      others = open(file)
      this.exec(sql)
    })
    await using ledger = await open(file)
    await using other = await (others ?? expect.unreachable())
    await other.register(incarnation('i1'))
    expect(await ledger.incarnations()).toHaveLength(1)
  })

  it('ten processes can open a new file at once', async () => {
    const file = newFile()
    const program = join(root, 'test', 'fixtures', 'opens-a-ledger.ts')
    const names = Array.from({ length: 10 }, (_, index) => `i${index}`)
    const run = (name: string): Promise<unknown> =>
      promisify(execFile)(nodeProgram, ['--disable-warning=ExperimentalWarning', program, file, name])
    await Promise.all(names.map(run))
    await using ledger = await open(file)
    expect((await ledger.incarnations()).map(({ id }) => id).toSorted()).toEqual(names)
  })
})

describe('SQLite store: refused files', () => {
  it('a file of a newer version is refused by name and not changed', async () => {
    const file = newFile()
    using db = new DatabaseSync(file)
    db.exec(`CREATE TABLE future (x); PRAGMA user_version = ${migrations.length + 1}`)
    db.close()
    const before = readFileSync(file)
    const refusal = open(file)
    await expect(refusal).rejects.toMatchObject({ code: 'ledger_too_new' })
    await expect(refusal).rejects.toThrow(`${file} was written by a newer Ebb (schema ${migrations.length + 1}`)
    expect(readFileSync(file)).toEqual(before)
    expect(readdirSync(join(file, '..'))).toEqual(['ledger.db'])
  })

  it('a newer file in WAL mode keeps the contents of its WAL', async () => {
    const file = newFile()
    using writer = new DatabaseSync(file)
    writer.exec(
      `PRAGMA journal_mode = WAL; CREATE TABLE future (x); PRAGMA user_version = ${migrations.length + 1}; INSERT INTO future VALUES (7)`,
    )
    const before = readFileSync(`${file}-wal`)
    await expect(open(file)).rejects.toMatchObject({ code: 'ledger_too_new' })
    expect(readFileSync(`${file}-wal`)).toEqual(before)
    expect(writer.prepare('SELECT x FROM future').get()).toEqual({ x: 7 })
  })

  it.each([
    ['garbage', Buffer.alloc(8_192, 'not a database ')],
    ['a text of a few bytes', Buffer.from('hello')],
  ])('%s is renamed, the error has the new name, and the next open starts with a new file', async (_what, content) => {
    const file = newFile()
    writeFileSync(file, content)
    const refusal = await open(file).catch((error: Error & { code: string }) => error)
    expect(refusal).toMatchObject({ code: 'ledger_corrupt' })
    const aside = /kept as (\S+?)\. /.exec((refusal as Error).message)?.[1] ?? ''
    expect(readFileSync(aside)).toEqual(content)
    expect(existsSync(file)).toBe(false)
    await using ledger = await open(file)
    expect(await ledger.incarnations()).toEqual([])
    expect(readFileSync(aside)).toEqual(content)
  })

  it('a database with an overwritten schema page is renamed unchanged', async () => {
    const file = newFile()
    const ledger = await open(file)
    await ledger.register(incarnation('i1'))
    await ledger[Symbol.asyncDispose]()
    const content = readFileSync(file)
    content.fill(0x5a, 100, 4_096)
    writeFileSync(file, content)
    const refusal = await open(file).then(
      (opened) => opened.incarnations(),
      (error: unknown) => error,
    )
    expect(refusal).toMatchObject({ code: 'ledger_corrupt', message: expect.stringContaining(`${file}.corrupt-`) })
    const [aside = ''] = readdirSync(join(file, '..')).filter(
      (name) => name.includes('.corrupt-') && !name.endsWith('l') && !name.endsWith('m'),
    )
    expect(readFileSync(join(file, '..', aside))).toEqual(content)
  })

  it('a database whose damage shows later rejects with ledger_corrupt, and is neither moved nor deleted', async () => {
    const file = newFile()
    const ledger = await open(file)
    await Promise.all(Array.from({ length: 200 }, (_, index) => ledger.register(incarnation(`i${index}`))))
    await ledger[Symbol.asyncDispose]()
    const content = readFileSync(file)
    for (const page of rootPages(file)) content.fill(0x5a, (page - 1) * 4_096, page * 4_096)
    writeFileSync(file, content)
    await using damaged = await open(file)
    await expect(damaged.incarnations()).rejects.toMatchObject({ code: 'ledger_corrupt', message: expect.stringContaining('ebb reap') })
    await expect(damaged.register(incarnation('next'))).rejects.toMatchObject({ code: 'ledger_corrupt' })
    expect(existsSync(file)).toBe(true)
  })

  /** The root pages of the tables: damage there leaves the schema readable. */
  function rootPages(file: string): readonly number[] {
    const db = new DatabaseSync(file)
    const pages = db
      .prepare('SELECT rootpage FROM sqlite_schema')
      .all()
      .map((row) => Number(row.rootpage))
    db.close()
    return pages.filter((page) => page > 1)
  }

  it('a folder in place of the file is refused with its name', async () => {
    const file = newFile()
    mkdirSync(file)
    await expect(open(file)).rejects.toMatchObject({ code: 'ledger_unavailable', message: expect.stringContaining(file) })
  })

  it('ebb exec with a corrupt database prints one error, runs nothing, and exits with 125', async () => {
    const home = temporaryHome()
    writeFileSync(join(home, 'ebb.db'), 'garbage that is no database')
    const witness = join(home, 'witness')
    const refused = await ebb(['exec', '--', 'touch', witness], { home })
    expect(refused).toMatchObject({ code: 125, stderr: expect.stringMatching(/^ebb: The database .* it was kept as .*\n$/) })
    expect(existsSync(witness)).toBe(false)
    const again = await ebb(['exec', '--', 'touch', witness], { home })
    expect(again).toMatchObject({ code: 0, stderr: '' })
    expect(readdirSync(home).filter((name) => name.includes('.corrupt-'))).toHaveLength(1)
  })
})
