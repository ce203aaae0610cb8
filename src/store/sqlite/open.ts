import { existsSync, renameSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { EbbError, sentence } from '../../domain/errors.ts'
import type { Clock } from '../../ports/clock.ts'
import { migrations } from './migrations.ts'
import { retryWhileBusy } from './retry.ts'

/**
 * Opens the database file, brings it to the newest schema, and refuses clearly what it cannot use. A file that is
 * corrupt is renamed aside and named, never deleted: it is the only record of what may still be in the world.
 */
export async function openDatabase(file: string, clock: Clock, busyBudgetMs: number): Promise<DatabaseSync> {
  return await retryWhileBusy(clock, busyBudgetMs, () => {
    let db: DatabaseSync | undefined
    try {
      db = new DatabaseSync(file, { timeout: 0 })
      prepare(db, file)
      return db
    } catch (error) {
      db?.close()
      if (isCorrupt(error)) throw keptAside(file, error)
      throw isCannotOpen(error) ? cannotOpen(file, error) : error
    }
  })
}

function prepare(db: DatabaseSync, file: string): void {
  const version = pragma(db, 'user_version')
  if (version > migrations.length) {
    throw new EbbError(
      'ledger_too_new',
      `${file} was written by a newer Ebb (schema ${version}, this one knows ${migrations.length}); use that version, or another --home.`,
    )
  }
  // WAL with FULL: one fsync per commit, and a commit that returned survives a power cut (sqlite.org/pragma.html#pragma_synchronous).
  if (version === 0) db.exec('PRAGMA journal_mode = WAL')
  db.exec('PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON')
  if (version < migrations.length) migrate(db)
}

function migrate(db: DatabaseSync): void {
  db.exec('BEGIN IMMEDIATE')
  try {
    // Read again under the lock: another process may have migrated meanwhile.
    for (let next = pragma(db, 'user_version'); next < migrations.length; next++) {
      db.exec(migrations[next] ?? '')
      db.exec(`PRAGMA user_version = ${next + 1}`)
    }
    db.exec('COMMIT')
  } catch (error) {
    db.exec('ROLLBACK')
    throw error
  }
}

function pragma(db: DatabaseSync, name: string): number {
  return Number(db.prepare(`PRAGMA ${name}`).get()?.[name])
}

function isCorrupt(error: unknown): boolean {
  return /file is not a database|malformed|disk image/.test(sentence(error))
}

function isCannotOpen(error: unknown): boolean {
  return /unable to open database|readonly database|authorization denied/.test(sentence(error))
}

function cannotOpen(file: string, cause: unknown): EbbError {
  return new EbbError(
    'ledger_unavailable',
    `The database ${file} cannot be opened (${sentence(cause)}); check that it and its folder are yours to read and write, or use another --home.`,
    { cause },
  )
}

function keptAside(file: string, cause: unknown): EbbError {
  const aside = `${file}.corrupt-${new Date().toISOString().replaceAll(/[:.]/g, '-')}`
  for (const suffix of ['', '-wal', '-shm']) if (existsSync(file + suffix)) renameSync(file + suffix, aside + suffix)
  return new EbbError(
    'ledger_corrupt',
    `The database ${file} is not readable (${sentence(cause)}); it was kept as ${aside}. Run the command again to start with a new one, then "ebb reap" to find what the old one knew.`,
    { cause },
  )
}
