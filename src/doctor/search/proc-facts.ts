import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { errno } from '../../core/model/errors.ts'
import { nextTurn } from '../../core/ports/turn.ts'
import type { ProcessFact } from '../judgement/process-fact.ts'

/** Linux's `/proc` as the doctor reads it: two small files of every process, in slices. What is not ours to read is undefined (G4). */

const slice = 200
const pageBytes = 4_096
/** proc(5): hundredths of a second on every Linux that Node runs on. */
export const ticksPerSecond = 100

/** Gone, or not ours to read. Anything else, such as no free descriptor, is no answer at all, and is thrown. */
const telling: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM', 'ENOTDIR', 'EINVAL'])

export function quietly<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (error) {
    if (telling.has(errno(error))) return undefined
    throw error
  }
}

export const readText = (path: string): string | undefined => quietly(() => readFileSync(path, 'utf8'))
export const readLink = (path: string): string | undefined => quietly(() => readlinkSync(path))
export const namesIn = (path: string): readonly string[] | undefined => quietly(() => readdirSync(path))

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

/** Whoever asks while a look is under way shares the one after it: fifty groups that end at once are two looks at a time. */
export function sharedTable(): () => Promise<ReadonlyMap<number, ProcessFact>> {
  let next: ReturnType<typeof readTable> | undefined
  let current: Promise<unknown> = Promise.resolve()
  return () => {
    next ??= current.then(() => {
      next = undefined
      const started = readTable()
      current = started.catch(() => {})
      return started
    })
    return next
  }
}

/** proc_pid_stat(5). The command is in parentheses and may itself hold spaces and parentheses. */
export function readFact(pid: number, bootMs: number): ProcessFact | undefined {
  const stat = readText(`/proc/${pid}/stat`)
  const [, command = '', rest = ''] = /^\d+ \((.*)\) (.*)$/s.exec(stat ?? '') ?? []
  const field = rest.split(' ')
  // A zombie is dead: only its parent can make it vanish.
  if (rest === '' || field[0] === 'Z' || field[0] === 'X') return undefined
  const uid = quietly(() => statSync(`/proc/${pid}`).uid)
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

/** Nothing ends an argument but NUL; a program that renamed itself fills the rest with more of them. */
function wordsOf(text: string): readonly string[] {
  const trimmed = text.replace(/\0+$/, '')
  return trimmed === '' ? [] : trimmed.split('\0')
}

/** Undefined when it is gone. */
export function startTimeOf(pid: number): string | undefined {
  return readFact(pid, 0)?.startTime
}

export function environOf(pid: number): readonly string[] | undefined {
  return readText(`/proc/${pid}/environ`)?.split('\0').filter(Boolean)
}

/** Of Linux's first pid namespace (PROC_PID_INIT_INO): whoever is in it sees every process. */
const firstPidNamespace = 'pid:[4026531836]'

export const seesAllProcesses = (): boolean => readLink('/proc/self/ns/pid') === firstPidNamespace
