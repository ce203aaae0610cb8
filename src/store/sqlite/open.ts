import { chmodSync, closeSync, existsSync, openSync, renameSync, type Stats, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { EbbError, errno, sentence } from '../../core/model/errors.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { isBusy, isCorrupt, isFull } from './explain.ts'
import { migrations } from './migrations.ts'
import { retryWhileBusy } from './retry.ts'

/**
 * Opens the database file and migrates it to the newest schema. A file of a newer version is refused. A corrupt file is renamed, and
 * the error has its new name. It is never deleted, because it is the only record of what may still exist.
 */
export async function openDatabase(file: string, clock: Clock, busyBudgetMs: number): Promise<DatabaseSync> {
  return await retryWhileBusy(clock, busyBudgetMs, () => {
    let db: DatabaseSync | undefined
    let found: Stats | undefined
    try {
      found = statSync(file, { throwIfNoEntry: false })
      if (!found) makePrivate(file)
      db = new DatabaseSync(file, { timeout: 0 })
      prepare(db, file)
      if (found && (found.mode & 0o077) !== 0) closeToOthers(file)
      return db
    } catch (error) {
      db?.close()
      if (isCorrupt(error)) throw keptAside(file, found, error)
      throw error instanceof EbbError || isBusy(error) ? error : cannotOpen(file, error)
    }
  })
}

/**
 * Creates the file with mode 0600. SQLite would apply only the umask; its `-wal` and `-shm` files inherit the mode. This is done only
 * for a new file: closing a descriptor of a database that this process has open would drop its locks (sqlite.org/howtocorrupt.html).
 */
function makePrivate(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    if (errno(error) !== 'EEXIST') throw error
  }
}

function closeToOthers(file: string): void {
  for (const path of withHelpers(file)) chmodSync(path, 0o600)
}

/** The paths of the database file and of SQLite's `-wal` and `-shm` files, where they exist. */
function withHelpers(file: string): readonly string[] {
  return ['', '-wal', '-shm'].map((suffix) => file + suffix).filter((path) => existsSync(path))
}

function prepare(db: DatabaseSync, file: string): void {
  const version = pragma(db, 'user_version')
  if (version > migrations.length) {
    throw new EbbError(
      'ledger_too_new',
      `${file} was written by a newer Ebb (schema ${version}, this version supports ${migrations.length}); use that version, or another --home.`,
    )
  }
  if (version === 0) db.exec('PRAGMA journal_mode = WAL')
  // With a WAL, NORMAL leaves the fsync to wal-sync.ts. Where the file system does not support a WAL, FULL syncs in every commit.
  const mode = db.prepare('PRAGMA journal_mode').get()?.journal_mode
  db.exec(`PRAGMA synchronous = ${mode === 'wal' ? 'NORMAL' : 'FULL'}; PRAGMA foreign_keys = ON`)
  if (version < migrations.length) migrate(db)
}

function migrate(db: DatabaseSync): void {
  db.exec('BEGIN IMMEDIATE')
  try {
    // The schema version is read again under the lock, because another process may have migrated meanwhile.
    for (let next = pragma(db, 'user_version'); next < migrations.length; next++) {
      db.exec(migrations[next] ?? '')
      db.exec(`PRAGMA user_version = ${next + 1}`)
    }
    db.exec('COMMIT')
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK')
    throw error
  }
}

function pragma(db: DatabaseSync, name: string): number {
  return Number(db.prepare(`PRAGMA ${name}`).get()?.[name])
}

function cannotOpen(file: string, cause: unknown): EbbError {
  const hint = isFull(cause) ? 'free some space' : 'check that you may read and write it and its folder'
  return new EbbError('ledger_unavailable', `The database ${file} cannot be opened (${sentence(cause)}); ${hint}, or use another --home.`, {
    cause,
  })
}

function keptAside(file: string, found: Stats | undefined, cause: unknown): EbbError {
  // Another process may have renamed the corrupt file and created a new one, which must not be renamed.
  if (statSync(file, { throwIfNoEntry: false })?.ino !== found?.ino) {
    return new EbbError('ledger_corrupt', `The database ${file} was not readable, and another process has just renamed it; try again.`, {
      cause,
    })
  }
  const aside = `${file}.corrupt-${new Date().toISOString().replaceAll(/[:.]/g, '-')}`
  for (const path of withHelpers(file)) renameSync(path, aside + path.slice(file.length))
  return new EbbError(
    'ledger_corrupt',
    `The database ${file} is not readable (${sentence(cause)}); it was kept as ${aside}. Run the command again to start with a new one, then "ebb reap" to find what the old one recorded.`,
    { cause },
  )
}
