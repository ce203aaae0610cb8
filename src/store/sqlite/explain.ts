import { EbbError, sentence } from '../../domain/errors.ts'

/** What SQLite's errors mean, told by their text: `node:sqlite` gives them all the same code. */

export function isBusy(error: unknown): boolean {
  return /database is locked|database table is locked|database is busy/.test(sentence(error))
}

export function isCorrupt(error: unknown): boolean {
  return /file is not a database|malformed|disk image/.test(sentence(error))
}

export function isFull(error: unknown): boolean {
  return /database or disk is full|ENOSPC/.test(sentence(error))
}

/** A full disk and a database that went away are said in a sentence; the caller decides what they mean. */
export function explain(error: unknown): EbbError {
  if (error instanceof EbbError) return error
  const text = sentence(error)
  if (isCorrupt(error)) {
    return new EbbError(
      'ledger_corrupt',
      `The database is damaged (${text}); end every Ebb on this home, move ebb.db away, then run "ebb reap" to find what it knew.`,
      { cause: error },
    )
  }
  const hint = isFull(error) ? 'free some space and try again' : 'check the disk and the file, then try again'
  return new EbbError('ledger_unavailable', `The database could not be used (${text}); ${hint}.`, { cause: error })
}
