import { nextTurn } from '../../core/ports/turn.ts'
import type { ProcessFact } from '../judgement/process-fact.ts'
import { namesIn, readLink, readText, startTimeOf } from './proc-facts.ts'

/** Finds the processes that have a pipe or a path open, in one pass over the descriptors of all processes. */

export interface PipeHolder {
  readonly pid: number
  readonly reads: boolean
  readonly writes: boolean
}

export interface OpenFiles {
  /** The holders by the inode number of a pipe, or the path of a named pipe. */
  readonly pipes: ReadonlyMap<string, readonly PipeHolder[]>
  /** Every path that a process has open, has as its working directory or runs from. */
  readonly paths: ReadonlySet<string>
  /** Processes of this user, or below one of them, whose descriptors could not be read. */
  readonly unreadable: readonly number[]
}

const slice = 500

/** Programs whose descriptors are never readable, and which hold no pipe of another program. */
const sealed = /^(ssh-agent|gpg-agent|\(sd-pam\)|systemd|gnome-keyring-d|sudo|polkitd?.*)$/

/** Finds the holders of `pipes` (inode numbers or paths), and all open paths below `roots`. */
export async function openFiles(
  table: ReadonlyMap<number, ProcessFact>,
  pipes: ReadonlySet<string>,
  roots: readonly string[],
): Promise<OpenFiles> {
  const held = new Map<string, PipeHolder[]>()
  const paths = new Set<string>()
  const unreadable: number[] = []
  const isBelow = (path: string): boolean => roots.some((root) => path === root || path.startsWith(`${root}/`))
  const addIfBelow = (path: string | undefined): void => {
    if (path !== undefined && isBelow(path)) paths.add(path)
  }
  let count = 0
  for (const { pid } of table.values()) {
    const names = namesIn(`/proc/${pid}/fd`)
    if (names === undefined) {
      if (startTimeOf(pid) !== undefined && mayHoldOurs(pid, table)) unreadable.push(pid)
      continue
    }
    for (const fd of names) {
      if (++count % slice === 0) await nextTurn()
      const target = readLink(`/proc/${pid}/fd/${fd}`)
      if (target === undefined) continue
      const pipe = /^pipe:\[(\d+)\]$/.exec(target)?.[1] ?? target
      if (pipe === target) addIfBelow(target)
      if (pipes.has(pipe)) held.set(pipe, [...(held.get(pipe) ?? []), { pid, ...accessOf(pid, fd) }])
    }
    if (roots.length > 0) {
      for (const link of ['cwd', 'exe', 'root']) addIfBelow(readLink(`/proc/${pid}/${link}`))
      const maps = readText(`/proc/${pid}/maps`) ?? ''
      if (roots.some((root) => maps.includes(root))) for (const [path] of maps.matchAll(/\/.*$/gm)) addIfBelow(path)
    }
  }
  return { pipes: held, paths, unreadable }
}

/**
 * How a descriptor was opened. fdinfo has the flags of open(2) in octal, and the last two bits are the access mode. Unreadable flags count
 * as read and write.
 */
function accessOf(pid: number, fd: string): { readonly reads: boolean; readonly writes: boolean } {
  const flags = /^flags:\s*([0-7]+)$/m.exec(readText(`/proc/${pid}/fdinfo/${fd}`) ?? '')?.[1]
  const how = flags === undefined ? 2 : Number.parseInt(flags, 8) & 3
  return { reads: how !== 1, writes: how !== 0 }
}

/**
 * Whether a process may hold a pipe of this user. A daemon of another user holds none. A program that this user's programs started as
 * another user (sudo) may hold one.
 */
function mayHoldOurs(pid: number, table: ReadonlyMap<number, ProcessFact>): boolean {
  const own = process.getuid?.() ?? 0
  for (let one = table.get(pid); one !== undefined && one.pid > 1; one = table.get(one.ppid)) {
    if (one.pid === pid && (one.argv.length === 0 || sealed.test(one.command))) return false
    // The /proc folder of a non-dumpable process belongs to root, so the owner is read from its status file.
    const real = /^Uid:\s+(\d+)/m.exec(readText(`/proc/${one.pid}/status`) ?? '')?.[1]
    if (Number(real) === own) return true
  }
  return false
}
