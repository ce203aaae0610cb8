import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs'
import { errno } from '../../domain/errors.ts'
import { cookieName } from '../../domain/identity.ts'
import { findCgroup2, members } from './cgroup-files.ts'
import type { MarkedProcess, ProcessEntry, ProcessTable } from './process-table.ts'

/** Linux's `/proc`, read synchronously in slices: 3–9 times faster than `fs.promises`, and no slice blocks for long. */

const slice = 200
let buffer = Buffer.allocUnsafe(64 * 1024)

/** Gone, or not ours to read. Anything else, such as no free descriptor, is no answer at all, and is thrown (G4). */
const telling: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM'])

/** Reads a small kernel file into a shared buffer; undefined when the process is gone or not ours to read. */
function read(path: string): Buffer | undefined {
  let fd: number | undefined
  try {
    fd = openSync(path, 'r')
    return readAll(fd)
  } catch (error) {
    if (telling.has(errno(error))) return undefined
    throw error
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

function readAll(fd: number): Buffer {
  for (let length = 0; ; ) {
    if (length === buffer.length) buffer = Buffer.concat([buffer], buffer.length * 2)
    const room = buffer.length - length
    const count = readSync(fd, buffer, length, room, length)
    length += count
    // These files come whole or as far as the room goes: a short read is the end.
    if (count < room) return buffer.subarray(0, length)
  }
}

/** proc_pid_stat(5). The command is in parentheses and may itself hold spaces and parentheses. */
export function parseStat(stat: string): ProcessEntry | undefined {
  const open = stat.indexOf('(')
  const close = stat.lastIndexOf(')')
  if (open < 0 || close < open) return undefined
  const field = stat.slice(close + 2).split(' ')
  return {
    pid: Number(stat.slice(0, open)),
    command: stat.slice(open + 1, close),
    state: field[0] ?? '?',
    ppid: Number(field[1]),
    pgid: Number(field[2]),
    sid: Number(field[3]),
    startTime: field[19] ?? '0',
    cookies: undefined,
  }
}

export function readEntry(pid: number | 'self'): ProcessEntry | undefined {
  const stat = read(`/proc/${pid}/stat`)
  return stat && parseStat(stat.toString('latin1'))
}

const needle = Buffer.from(`${cookieName}=`)

/** The cookie's value in a process's initial environment. */
function readCookies(pid: number): string | undefined {
  let environ = read(`/proc/${pid}/environ`)
  // A zombie's is empty; where only the main thread is one, another thread still has it.
  const thread = environ?.length === 0 ? otherThread(pid) : undefined
  if (thread !== undefined) environ = read(`/proc/${pid}/task/${thread}/environ`)
  if (!environ) return undefined
  for (let from = 0; ; ) {
    const at = environ.indexOf(needle, from)
    if (at < 0) return undefined
    if (at === 0 || environ[at - 1] === 0) {
      const end = environ.indexOf(0, at)
      return environ.toString('latin1', at + needle.length, end < 0 ? environ.length : end)
    }
    from = at + 1
  }
}

/** Reads the cookie when it is asked for: most processes are too old to be ours, and need no second file opened. */
class ScannedEntry implements ProcessEntry {
  readonly pid: number
  readonly ppid: number
  readonly pgid: number
  readonly sid: number
  readonly state: string
  readonly startTime: string
  readonly command: string
  #cookies: string | undefined | null = null

  constructor(entry: ProcessEntry) {
    this.pid = entry.pid
    this.ppid = entry.ppid
    this.pgid = entry.pgid
    this.sid = entry.sid
    this.state = entry.state
    this.startTime = entry.startTime
    this.command = entry.command
  }

  get cookies(): string | undefined {
    if (this.#cookies === null) this.#cookies = readCookies(this.pid)
    return this.#cookies
  }
}

function pids(): readonly number[] {
  const all = readdirSync('/proc').map(Number).filter(Number.isInteger)
  return all.length < crowd ? all : withoutZombies(all)
}

/** From here on it pays to leave out the dead before anything of theirs is opened. */
const crowd = 500

/**
 * A thousand processes that were just killed are a thousand zombies, and opening one costs 40 µs while the kernel takes
 * them down. The lists of the cgroups hold only the living. Walked twice, because one that changes its cgroup during a
 * walk may be in neither list; used only where the lists can be seen to be complete: they hold us and pid 1.
 */
function withoutZombies(all: readonly number[]): readonly number[] {
  try {
    const mount = findCgroup2(readFileSync('/proc/self/mountinfo', 'utf8'), readFileSync('/proc/self/cgroup', 'utf8'))
    const first = new Set(mount ? members(mount.mountPoint) : [])
    const dead = all.filter((pid) => !first.has(pid)).length
    if (!mount || !first.has(process.pid) || !first.has(1) || dead < crowd / 2) return all
    const second = new Set(members(mount.mountPoint))
    return all.filter((pid) => first.has(pid) || second.has(pid))
  } catch {
    return all
  }
}

/** A zombie is dead: it answers kill(pid, 0), but holds nothing. Unless only its main thread is, and others run on. */
function living(pid: number): ProcessEntry | undefined {
  const entry = readEntry(pid)
  if (!entry || entry.state === 'X') return undefined
  return entry.state !== 'Z' || otherThread(pid) !== undefined ? new ScannedEntry(entry) : undefined
}

/** A thread besides the main one. */
function otherThread(pid: number): string | undefined {
  try {
    return readdirSync(`/proc/${pid}/task`).find((thread) => Number(thread) !== pid)
  } catch (error) {
    if (telling.has(errno(error))) return undefined
    throw error
  }
}

function marked(pid: number): MarkedProcess | undefined {
  const cookies = readCookies(pid)
  return cookies === undefined ? undefined : { pid, cookies }
}

/** Callers who come while a scan runs share the one after it: a proof must begin after the kill it proves. */
function sharedScan<T>(look: (pid: number) => T | undefined): () => Promise<readonly T[]> {
  let next: Promise<readonly T[]> | undefined
  let current: Promise<unknown> = Promise.resolve()
  const scan = async (): Promise<readonly T[]> => {
    const found: T[] = []
    let count = 0
    for (const pid of pids()) {
      const one = look(pid)
      if (one !== undefined) found.push(one)
      if (++count % slice === 0) await new Promise<void>((resolve) => setImmediate(resolve))
    }
    return found
  }
  return () => {
    next ??= current.then(() => {
      next = undefined
      const started = scan()
      current = started.catch(() => {})
      return started
    })
    return next
  }
}

export const procTable: ProcessTable = {
  find: living,
  snapshot: sharedScan(living),
  marked: sharedScan(marked),
  markedNow: () => [...pids()].flatMap((pid) => marked(pid) ?? []),
}

export function pidNamespace(): string {
  return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0'
}
