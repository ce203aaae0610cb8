import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { errno } from '../../core/model/errors.ts'
import { nextTurn } from '../../core/ports/turn.ts'
import type { ProcessFact } from '../judgement/process-fact.ts'

/** Reads Linux's `/proc`: two small files of every process, in slices. What may not be read is undefined (G4). */

const slice = 200
const pageBytes = 4_096
/** The unit of time in `/proc` (proc(5)): a clock tick is a hundredth of a second on every Linux that Node runs on. */
export const ticksPerSecond = 100

/** Errors that mean that the file is gone or may not be read. Any other error, such as no free descriptor, proves nothing and is thrown. */
const expectedErrors: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM', 'ENOTDIR', 'EINVAL'])

export function tryRead<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (expectedErrors.has(errno(error))) return undefined
    throw error
  }
}

export const readText = (path: string): string | undefined => tryRead(() => readFileSync(path, 'utf8'))
export const readLink = (path: string): string | undefined => tryRead(() => readlinkSync(path))
export const namesIn = (path: string): readonly string[] | undefined => tryRead(() => readdirSync(path))

/** Every living process. */
export async function readTable(): Promise<ReadonlyMap<number, ProcessFact>> {
  const table = new Map<number, ProcessFact>()
  const nowMs = Date.now()
  const uptimeMs = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1_000
  let count = 0
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    if (++count % slice === 0) await nextTurn()
    const fact = readFact(Number(name), nowMs - uptimeMs)
    if (fact) table.set(fact.pid, fact)
  }
  return table
}

/**
 * Returns a function that reads the table. Calls during a scan share the next scan, so fifty groups that end at once cause two scans, not
 * fifty.
 */
export function sharedTable(): () => Promise<ReadonlyMap<number, ProcessFact>> {
  let next: ReturnType<typeof readTable> | undefined
  let current: Promise<unknown> = Promise.resolve()
  return () => {
    next ??= current.then(() => {
      next = undefined
      const started = readTable()
      // `current` only orders the scans, so the error of one scan does not stop the next. Callers get the error from `started`.
      current = started.catch(() => {})
      return started
    })
    return next
  }
}

/** One process from proc_pid_stat(5). In that file the command is in parentheses and may itself hold spaces and parentheses. */
export function readFact(pid: number, bootMs: number): ProcessFact | undefined {
  const stat = readText(`/proc/${pid}/stat`)
  const [, command = '', rest = ''] = /^\d+ \((.*)\) (.*)$/s.exec(stat ?? '') ?? []
  const field = rest.split(' ')
  // A zombie has ended; only its parent can reap it.
  if (rest === '' || field[0] === 'Z' || field[0] === 'X') return undefined
  const uid = tryRead(() => statSync(`/proc/${pid}`).uid)
  if (uid === undefined) return undefined
  const startTime = field[19] ?? '0'
  return {
    pid,
    command,
    ppid: Number(field[1]),
    pgid: Number(field[2]),
    sid: Number(field[3]),
    tty: Number(field[4]),
    startTime,
    startedAtMs: bootMs + (Number(startTime) / ticksPerSecond) * 1_000,
    memoryBytes: Math.max(0, Number(field[21])) * pageBytes,
    uid,
    argv: wordsOf(readText(`/proc/${pid}/cmdline`) ?? ''),
  }
}

/**
 * The arguments in `/proc/PID/cmdline`, each of which ends with NUL. A program that renamed itself fills the rest of the space with further
 * NULs.
 */
function wordsOf(text: string): readonly string[] {
  const trimmed = text.replace(/\0+$/, '')
  return trimmed === '' ? [] : trimmed.split('\0')
}

/** The start time of a process in clock ticks; undefined when the process is gone. */
export function startTimeOf(pid: number): string | undefined {
  return readFact(pid, 0)?.startTime
}

export function environOf(pid: number): readonly string[] | undefined {
  return readText(`/proc/${pid}/environ`)?.split('\0').filter(Boolean)
}

/** The initial pid namespace of Linux (PROC_PID_INIT_INO). A process in it sees every process. */
const firstPidNamespace = 'pid:[4026531836]'

export const seesAllProcesses = (): boolean => readLink('/proc/self/ns/pid') === firstPidNamespace
