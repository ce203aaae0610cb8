import { EbbError, sentence } from '../../core/model/errors.ts'

/** Classifies SQLite's errors, mostly by their text: `node:sqlite` gives all of them the same code. */

export function isBusy(error: unknown): boolean {
  return /database is locked|database table is locked|database is busy/.test(sentence(error))
}

export function isCorrupt(error: unknown): boolean {
  return /file is not a database|malformed|disk image/.test(sentence(error))
}

export function isFull(error: unknown): boolean {
  return /database or disk is full|ENOSPC/.test(sentence(error))
}

/** SQLITE_READONLY: nothing was written, and a retry does not help. */
export function isReadOnly(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === 8
}

/** SQLITE_TOOBIG, SQLITE_CONSTRAINT and SQLITE_MISMATCH: the lowest byte of an extended error code. */
const refusals: ReadonlySet<number> = new Set([18, 19, 20])

/** True when the database works but can never save this data: an unsupported value, or one that violates a constraint. */
function isRefused(error: unknown): boolean {
  if (error instanceof TypeError) return true
  return error instanceof Error && 'errcode' in error && refusals.has(Number(error.errcode) & 0xff)
}

/** Turns any database error into an `EbbError` with a code and a message that says what to do. */
export function explain(error: unknown): EbbError {
  if (error instanceof EbbError) return error
  const text = sentence(error)
  if (isCorrupt(error)) {
    return new EbbError(
      'ledger_corrupt',
      `The database is damaged (${text}); end every Ebb on this home, move ebb.db away, then run "ebb reap" to find what it recorded.`,
      { cause: error },
    )
  }
  if (isRefused(error))
    return new EbbError('internal', `The database refused to save a value (${text}); this is a defect of Ebb, please report it.`, {
      cause: error,
    })
  if (isReadOnly(error)) {
    const hint = 'check that you may write to ebb.db and its folder, then try again'
    return new EbbError('ledger_read_only', `The database cannot be written (${text}); ${hint}.`, { cause: error })
  }
  const hint = isFull(error) ? 'free some space and try again' : 'check the disk and the file, then try again'
  return new EbbError('ledger_unavailable', `The database could not be used (${text}); ${hint}.`, { cause: error })
}
