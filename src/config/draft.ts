import { readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { errno } from '../core/model/errors.ts'
import type { Effects } from '../core/ports/effects.ts'

/**
 * A file that others read is written as a draft beside it, and then renamed or linked into place, so that it is never read half-written. The
 * name of the draft has the pid of its writer. Drafts of writers that died are removed by the next writer.
 */

/** Writes the draft of a file, and returns its path. */
export function writeDraft(file: string, text: string, effects: Effects): string {
  removeLostDrafts(file, effects)
  const draft = draftOf(file, process.pid)
  effects.createFile(draft, text, 0o600)
  return draft
}

/** Removes the drafts of dead processes, and one of this pid, which an earlier process has left. */
export function removeLostDrafts(file: string, effects: Effects): void {
  const prefix = `${basename(file)}.`
  for (const name of readdirSync(dirname(file))) {
    const pid = name.startsWith(prefix) ? Number(name.slice(prefix.length)) : Number.NaN
    if (pid > 0 && (pid === process.pid || !mayLive(pid))) unless(['ENOENT'], () => effects.unlink(join(dirname(file), name)))
  }
}

/** Runs an operation and ignores the expected errors, which are given by errno name. */
export function unless(expected: readonly string[], act: () => void): void {
  try {
    act()
  } catch (error) {
    if (!expected.includes(errno(error) ?? '')) throw error
  }
}

function draftOf(file: string, pid: number): string {
  return `${file}.${pid}`
}

/** False only when no process that this process can see has the pid. */
function mayLive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return errno(error) !== 'ESRCH'
  }
}
