import { readFileSync, readlinkSync } from 'node:fs'
import { lstat, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { errno } from '../core/model/errors.ts'

/** Temporary homes. Each name contains the process it was made for, so that a later start can remove the homes of killed processes. */

const prefix = 'ebb-agent-home-'
const pattern = new RegExp(`^${prefix}(\\d+)-(\\d+)-(\\d+)-\\w{6}$`)
/** Stands for a pid namespace or a start time that is not known, for example without /proc. */
const unknown = '0'
/** The maximum number of homes that one start removes, because the temporary folder may be full of them. The next start removes more. */
const removedAtOnce = 100

export async function makeHome(): Promise<string> {
  return await mkdtemp(join(tmpdir(), `${prefix}${namespace()}-${process.pid}-${startOf(process.pid)}-`))
}

/** An agent that has just been killed may still be writing, so the removal is retried for about four seconds. */
export async function removeHome(home: string): Promise<void> {
  await rm(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 20 })
}

/** Removes the homes of processes that have ended. A home that cannot be removed is left: it does not concern this process. */
export async function removeAbandonedHomes(): Promise<void> {
  // A temporary folder that cannot be listed is skipped.
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
  // Containers may share the temporary folder, but pids are only comparable within one pid namespace.
  if (made === undefined || made !== namespace()) return false
  if (!isAlive(Number(pid))) return true
  const now = startOf(Number(pid))
  return now !== unknown && start !== unknown && now !== start
}

/** The inode number of the own pid namespace, see namespaces(7). */
function namespace(): string {
  try {
    return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? unknown
  } catch {
    return unknown
  }
}

/** The start time of a process: proc_pid_stat(5), field 22. It detects a reused pid. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? unknown
  } catch {
    return unknown
  }
}

/** Only the error ESRCH of kill(2) proves that a process does not exist. After any other error the process counts as alive. */
function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return errno(error) !== 'ESRCH'
  }
}
