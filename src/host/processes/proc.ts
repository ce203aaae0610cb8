import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs'
import { errno } from '../../core/model/errors.ts'
import { environmentTagName } from '../../core/model/identity.ts'
import { nextTurn } from '../../core/ports/turn.ts'
import { findCgroup2, members } from '../containment/cgroup-files.ts'
import { rlimitTagIn } from '../containment/rlimit-tag.ts'
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
export function parseStat(stat: string, field = fieldsOf(stat)): ProcessEntry | undefined {
  const open = stat.indexOf('(')
  const close = stat.lastIndexOf(')')
  if (open < 0 || close < open) return undefined
  return {
    pid: Number(stat.slice(0, open)),
    command: stat.slice(open + 1, close),
    state: field[0] ?? '?',
    ppid: Number(field[1]),
    pgid: Number(field[2]),
    sid: Number(field[3]),
    startTime: field[19] ?? '0',
    environmentTags: undefined,
  }
}

/** From the third on: those after the command. */
function fieldsOf(stat: string): readonly string[] {
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

export function readEntry(pid: number | 'self'): ProcessEntry | undefined {
  const stat = read(`/proc/${pid}/stat`)
  return stat && parseStat(stat.toString('latin1'))
}

const needle = Buffer.from(`${environmentTagName}=`)

/**
 * It is in the middle of an exec(2): the memory of the old program is gone, and the new one has no environment yet. One
 * look in eight at a process that does nothing else falls into that moment, which is 25 µs long, 35 ms when others
 * have the processors; with ten others on two of them a whole look was seen to take 0.4 s. Whoever is there may be ours.
 */
const between = Symbol('between two programs')

/** So long it is waited for: a scan looks again, beside other work; whoever asks later, at once. Also a hung exec has its end. */
const scanWaitMs = 1_000
const lateWaitMs = 250

/** A process's initial environment: empty where it was given none, or we may not read it; undefined where there is no such thing. */
function readEnviron(pid: number): Buffer | undefined | typeof between {
  const environ = read(`/proc/${pid}/environ`)
  // A main thread that has ended shows an empty one, or says that there is no such process (seen on Linux 6.18).
  if (environ !== undefined && environ.length > 0) return environ
  const stat = read(`/proc/${pid}/stat`)
  if (!stat) return undefined
  const field = fieldsOf(stat.toString('latin1'))
  if ((Number(field[6]) & kernelThread) !== 0) return undefined
  if (hasMemory(field)) return isUnfinished(field) ? between : lateEnviron(pid, field)
  // It is about to be a zombie; where only the main thread is one, another thread still has it.
  const thread = otherThread(pid)
  return thread === undefined ? undefined : read(`/proc/${pid}/task/${thread}/environ`)
}

/** Of one whose program is there: the environment has come by now, or it was given an empty one, or it has unmapped its own. */
function lateEnviron(pid: number, field: readonly string[]): Buffer | undefined | typeof between {
  if (field[47] === field[48]) return nothing
  const environ = read(`/proc/${pid}/environ`)
  if (environ !== undefined && environ.length > 0) return environ
  const stat = read(`/proc/${pid}/stat`)
  return stat && (programOf(fieldsOf(stat.toString('latin1'))) === programOf(field) ? nothing : between)
}

/**
 * startcode, env_start and env_end, which are random, and the page faults until now, for where they are not (`setarch -R`): no exec
 * goes without one. Whoever has the same before and after has not become another program in between.
 */
function programOf(field: readonly string[]): string {
  return [23, 47, 48, 7, 9].map((index) => field[index]).join(' ')
}

const nothing = Buffer.alloc(0)

/** vsize. */
function hasMemory(field: readonly string[]): boolean {
  return field[20] !== '0'
}

/** startcode, which an exec sets last. Of those that we may not look into it is 1; kernels that are none tell it of nobody. */
function isUnfinished(field: readonly string[]): boolean {
  tellsCode ??= fieldsOf(readFileSync('/proc/self/stat', 'latin1'))[23] !== '0'
  return tellsCode && field[23] === '0'
}

let tellsCode: boolean | undefined

/** PF_KTHREAD: a third of all processes, with nothing to read. */
const kernelThread = 0x00200000

/** The cookie's value in it. */
function readEnvironmentTags(pid: number): string | undefined | typeof between {
  const environ = readEnviron(pid)
  return environ === between ? between : environ && environmentTagsIn(environ)
}

function environmentTagsIn(environ: Buffer): string | undefined {
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
  #environmentTags: string | undefined | null = null
  #rlimitTag: string | undefined | null = null

  constructor(entry: ProcessEntry) {
    this.pid = entry.pid
    this.ppid = entry.ppid
    this.pgid = entry.pgid
    this.sid = entry.sid
    this.state = entry.state
    this.startTime = entry.startTime
    this.command = entry.command
  }

  get environmentTags(): string | undefined {
    if (this.#environmentTags !== null) return this.#environmentTags
    const untilMs = performance.now() + lateWaitMs
    let environmentTags = readEnvironmentTags(this.pid)
    while (environmentTags === between && performance.now() < untilMs) environmentTags = readEnvironmentTags(this.pid)
    this.#environmentTags = environmentTags === between ? undefined : environmentTags
    return this.#environmentTags
  }

  get rlimitTag(): string | undefined {
    if (this.#rlimitTag === null) this.#rlimitTag = readRlimitTag(this.pid)
    return this.#rlimitTag
  }
}

/** The world may read this file, also of those whose environment is not for us. */
function readRlimitTag(pid: number): string | undefined {
  const limits = read(`/proc/${pid}/limits`)
  const rlimitTag = limits && rlimitTagIn(limits.toString('latin1'))
  return rlimitTag === 'unlimited' ? undefined : rlimitTag
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
  return livingBy(pid, readEntry(pid))
}

function livingBy(pid: number, entry: ProcessEntry | undefined): ProcessEntry | undefined {
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

function marked(pid: number): MarkedProcess | undefined | typeof between {
  const environ = readEnviron(pid)
  return environ === between || environ === undefined ? environ : markedBy(pid, environmentTagsIn(environ))
}

function markedBy(pid: number, environmentTags: string | undefined): MarkedProcess | undefined {
  const rlimitTag = readRlimitTag(pid)
  return environmentTags === undefined && rlimitTag === undefined ? undefined : { pid, environmentTags: environmentTags ?? '', rlimitTag }
}

/** Most cookies are read later, or never; only who shows no environment now is asked for it, by the same look. */
function scanned(pid: number): ProcessEntry | undefined | typeof between {
  const stat = read(`/proc/${pid}/stat`)?.toString('latin1')
  if (stat === undefined) return undefined
  const field = fieldsOf(stat)
  if (hasMemory(field) && isUnfinished(field) && readEnvironmentTags(pid) === between) return between
  return livingBy(pid, parseStat(stat, field))
}

/** One that stays between two programs is there, with no mark to be seen. */
function unmarked(pid: number): ProcessEntry | undefined {
  return living(pid) && readEntry(pid)
}

interface Look<T> {
  readonly of: (pid: number) => T | undefined | typeof between
  /** What is said of those who stay between two programs. */
  readonly ofHung: (pid: number) => T | undefined
}

/** Everybody, and those who are between two programs again until they are there; lets others in between where it yields. */
function* scan<T>(look: Look<T>): Generator<undefined, readonly T[]> {
  const found: T[] = []
  const untilMs = performance.now() + scanWaitMs
  let left = pids()
  do {
    const again: number[] = []
    for (const [index, pid] of left.entries()) {
      const one = look.of(pid)
      if (one === between) again.push(pid)
      else if (one !== undefined) found.push(one)
      if (index % slice === slice - 1) yield
    }
    left = again
    if (left.length > 0) yield
  } while (left.length > 0 && performance.now() < untilMs)
  return [...found, ...left.flatMap((pid) => look.ofHung(pid) ?? [])]
}

async function inTurns<T>(steps: Generator<undefined, T>): Promise<T> {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
    await nextTurn()
  }
}

function atOnce<T>(steps: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/** Callers who come while a scan runs share the one after it: a proof must begin after the kill it proves. */
function sharedScan<T>(look: Look<T>): () => Promise<readonly T[]> {
  let next: Promise<readonly T[]> | undefined
  let current: Promise<unknown> = Promise.resolve()
  return () => {
    next ??= current.then(() => {
      next = undefined
      const started = inTurns(scan(look))
      current = started.catch(() => {})
      return started
    })
    return next
  }
}

const marks: Look<MarkedProcess> = { of: marked, ofHung: (pid) => markedBy(pid, undefined) }

export const procTable: ProcessTable = {
  find: living,
  snapshot: sharedScan({ of: scanned, ofHung: unmarked }),
  marked: sharedScan(marks),
  markedNow: () => atOnce(scan(marks)),
}

export function pidNamespace(): string {
  return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0'
}
