import { readFileSync, readlinkSync } from 'node:fs'
import { lstat, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { errno } from '../core/model/errors.ts'

/** Homes to throw away. Each is named after the process it was made for, so that one that was killed leaves nothing for good. */

const prefix = 'ebb-agent-home-'
const pattern = new RegExp(`^${prefix}(\\d+)-(\\d+)-(\\d+)-\\w{6}$`)
/** Where there is no /proc. */
const unknown = '0'
/** Somebody else may have filled the temporary folder; the rest is for the start after this one. */
const removedAtOnce = 100

export async function makeHome(): Promise<string> {
  return await mkdtemp(join(tmpdir(), `${prefix}${namespace()}-${process.pid}-${startOf(process.pid)}-`))
}

/** An agent that has just been killed may still be writing: some four seconds are given to it. */
export async function removeHome(home: string): Promise<void> {
  await rm(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 20 })
}

/** Those of processes that are no more. What cannot be removed is left: nobody has asked for it here. */
export async function removeAbandonedHomes(): Promise<void> {
  const abandoned = (await readdir(tmpdir()).catch(() => [])).filter(isAbandoned).slice(0, removedAtOnce)
  await Promise.allSettled(
    abandoned.map(async (name) => {
      const home = join(tmpdir(), name)
      const found = await lstat(home)
      if (found.isDirectory() && found.uid === process.getuid?.()) await rm(home, { recursive: true, force: true })
    }),
  )
}

function isAbandoned(name: string): boolean {
  const [, made, pid, start] = pattern.exec(name) ?? []
  // Containers may share the folder, but not the numbers of their processes.
  if (made === undefined || made !== namespace()) return false
  if (!isAlive(Number(pid))) return true
  const now = startOf(Number(pid))
  return now !== unknown && start !== unknown && now !== start
}

/** namespaces(7). */
function namespace(): string {
  try {
    return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? unknown
  } catch {
    return unknown
  }
}

/** proc_pid_stat(5), field 22: a number may have been given to another process since. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? unknown
  } catch {
    return unknown
  }
}

/** Only that there is no such process is an answer; anything else may be one of ours. */
function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return errno(error) !== 'ESRCH'
  }
}
