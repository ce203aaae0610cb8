import { closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs'
import { errno } from '../../core/model/errors.ts'
import { environmentTagName } from '../../core/model/identity.ts'
import { nextTurn } from '../../core/ports/turn.ts'
import { monotonicMs } from '../clock.ts'
import { findCgroup2, members } from '../containment/cgroup-files.ts'
import { rlimitTagIn } from '../containment/rlimit-tag.ts'
import type { MarkedProcess, ProcessEntry, ProcessTable } from './process-table.ts'

/**
 * The process table of Linux, from `/proc`. It is read synchronously in slices, which is 3 to 9 times faster than `fs.promises`; the
 * event loop gets a turn between two slices.
 */

const slice = 200
let buffer = Buffer.allocUnsafe(64 * 1024)

/**
 * Errors that mean that the process is gone or may not be read. Other errors, such as no free descriptor, prove nothing and are thrown
 * (G4).
 */
const conclusive: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM'])

/** Reads a small kernel file into a shared buffer; undefined when the process is gone or may not be read. */
function read(path: string): Buffer | undefined {
  let fd: number | undefined
  try {
    fd = openSync(path, 'r')
    return readAll(fd)
  } catch (error) {
    if (conclusive.has(errno(error))) return undefined
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
    // The kernel fills the buffer as far as the file goes, so a short read is the end of the file.
    if (count < room) return buffer.subarray(0, length)
  }
}

/** Parses proc_pid_stat(5). The command is in parentheses and may itself hold spaces and parentheses. */
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

/** The fields of proc_pid_stat(5) after the command: index 0 is field 3, the state. */
function fieldsOf(stat: string): readonly string[] {
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

export function readEntry(pid: number | 'self'): ProcessEntry | undefined {
  const stat = read(`/proc/${pid}/stat`)
  return stat && parseStat(stat.toString('latin1'))
}

const needle = Buffer.from(`${environmentTagName}=`)

/**
 * Stands for a process in the middle of an exec(2): the memory of the old program is gone, and the new program has no environment yet. Such
 * a process may carry our tag, so it must be read again. This state lasts 25 µs, or 35 ms when other processes use the processors. Of a
 * process that does nothing but exec, one read in eight finds this state. With ten busy processes on two processors it lasted up to 0.4 s.
 */
const between = Symbol('between two programs')

/**
 * How long to wait for the end of an exec. A scan reads the process again after other work, and a read outside a scan repeats at once. An
 * exec may hang, so both waits are bounded.
 */
const scanWaitMs = 1_000
const lateWaitMs = 250

/** The initial environment of a process; empty when it has none or it may not be read; undefined for a kernel thread or a dead process. */
function readEnviron(pid: number): Buffer | undefined | typeof between {
  const environ = read(`/proc/${pid}/environ`)
  // After the main thread has ended, `environ` is empty or reading it fails with ESRCH (observed on Linux 6.18).
  if (environ !== undefined && environ.length > 0) return environ
  const stat = read(`/proc/${pid}/stat`)
  if (!stat) return undefined
  const field = fieldsOf(stat.toString('latin1'))
  if (isKernelThread(field)) return undefined
  if (hasMemory(field)) return isUnfinished(field) ? between : lateEnviron(pid, field)
  // A process without memory is about to be a zombie. When only its main thread has ended, another thread still shows the environment.
  const thread = otherThread(pid)
  return thread === undefined ? undefined : read(`/proc/${pid}/task/${thread}/environ`)
}

/**
 * The environment of a process whose exec has finished. By now the environment has appeared, or it was empty from the start, or the process
 * has unmapped it.
 */
function lateEnviron(pid: number, field: readonly string[]): Buffer | undefined | typeof between {
  if (field[47] === field[48]) return emptyEnviron
  const environ = read(`/proc/${pid}/environ`)
  if (environ !== undefined && environ.length > 0) return environ
  const stat = read(`/proc/${pid}/stat`)
  return stat && (programOf(fieldsOf(stat.toString('latin1'))) === programOf(field) ? emptyEnviron : between)
}

/**
 * Identifies the program that a process runs: startcode, env_start and env_end, which are random, and the number of page faults, for
 * systems where they are not random (`setarch -R`). Every exec causes a page fault, so the same value before and after means that there
 * was no exec in between.
 */
function programOf(field: readonly string[]): string {
  return [23, 47, 48, 7, 9].map((index) => field[index]).join(' ')
}

const emptyEnviron = Buffer.alloc(0)

/** Whether the process has an address space: field 23, vsize, is not 0. */
function hasMemory(field: readonly string[]): boolean {
  return field[20] !== '0'
}

/**
 * Whether an exec is under way: field 26, startcode, which an exec sets last, is 0. The field is 1 for processes that we may not inspect. A
 * system that only imitates the Linux kernel may show 0 for every process; there the field has no meaning.
 */
function isUnfinished(field: readonly string[]): boolean {
  showsStartCode ??= fieldsOf(readFileSync('/proc/self/stat', 'latin1'))[23] !== '0'
  return showsStartCode && field[23] === '0'
}

let showsStartCode: boolean | undefined

/** Whether a process has the flag PF_KTHREAD of kernel threads, which have no environment. */
function isKernelThread(field: readonly string[]): boolean {
  return (Number(field[6]) & 0x00200000) !== 0
}

/** The value of `EBB_SCOPE` in the environment of a process. */
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

/**
 * A process in a snapshot. It reads its tags on first use: most processes are older than the supervisor, and their tags are never needed.
 */
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
    const untilMs = monotonicMs() + lateWaitMs
    let environmentTags = readEnvironmentTags(this.pid)
    while (environmentTags === between && monotonicMs() < untilMs) environmentTags = readEnvironmentTags(this.pid)
    this.#environmentTags = environmentTags === between ? undefined : environmentTags
    return this.#environmentTags
  }

  get rlimitTag(): string | undefined {
    if (this.#rlimitTag === null) this.#rlimitTag = readRlimitTag(this.pid)
    return this.#rlimitTag
  }
}

/** Reads RLIMIT_RSS from `/proc/PID/limits`, which is readable for everybody, also where the environment is not. */
function readRlimitTag(pid: number): string | undefined {
  const limits = read(`/proc/${pid}/limits`)
  const rlimitTag = limits && rlimitTagIn(limits.toString('latin1'))
  return rlimitTag === 'unlimited' ? undefined : rlimitTag
}

function pids(): readonly number[] {
  const all = readdirSync('/proc').map(Number).filter(Number.isInteger)
  return all.length < manyProcesses || !hasZombies(all) ? all : withoutZombies(all)
}

/**
 * The kernel's threads. They carry no tag, and they are a third to a half of all processes: to read a file of each one takes half of the
 * time of a scan. All are children of kthreadd, which has pid 2 outside of pid namespaces. A program that the kernel starts is a child of
 * kthreadd, too, but it has an executable. Empty where the kernel does not list children (CONFIG_PROC_CHILDREN).
 */
export function kernelThreads(): ReadonlySet<number> {
  const stat = read('/proc/2/stat')
  if (!stat || !isKernelThread(fieldsOf(stat.toString('latin1')))) return new Set()
  const children = (read('/proc/2/task/2/children')?.toString('latin1') ?? '').split(' ').map(Number)
  return new Set(children.filter((pid) => pid > 0 && !existsSync(`/proc/${pid}/exe`)))
}

function pidsWithoutKernelThreads(): readonly number[] {
  const all = pids()
  const threads = kernelThreads()
  return all.filter((pid) => !threads.has(pid))
}

/** With at least this many processes, it saves time to leave out zombies before their files are opened. */
const manyProcesses = 500

/**
 * Guesses from a sample whether many of the processes are zombies. Only then is it worth to walk through the cgroups in `withoutZombies`,
 * which takes half as long as the scan itself. A wrong guess costs time and changes no result.
 */
function hasZombies(all: readonly number[]): boolean {
  const step = Math.ceil(all.length / sampledProcesses)
  return all.some((pid, at) => at % step === 0 && readEntry(pid)?.state === 'Z')
}

const sampledProcesses = 32

/**
 * Leaves out zombies by the process lists of the cgroups, which hold only living processes. A thousand killed processes are a thousand
 * zombies, and opening one takes 40 µs while the kernel tears it down. The lists are read twice, because a process that changes its
 * cgroup during one walk may be in no list. They are used only when they seem complete, that is, when they hold this process and pid 1.
 */
function withoutZombies(all: readonly number[]): readonly number[] {
  try {
    const mount = findCgroup2(readFileSync('/proc/self/mountinfo', 'utf8'), readFileSync('/proc/self/cgroup', 'utf8'))
    const first = new Set(mount ? members(mount.mountPoint) : [])
    const dead = all.filter((pid) => !first.has(pid)).length
    if (!mount || !first.has(process.pid) || !first.has(1) || dead < manyProcesses / 2) return all
    const second = new Set(members(mount.mountPoint))
    return all.filter((pid) => first.has(pid) || second.has(pid))
  } catch {
    return all
  }
}

/**
 * A zombie counts as dead, although kill(pid, 0) succeeds, because it holds nothing. It is living when other threads than the main one
 * still run.
 */
function living(pid: number): ProcessEntry | undefined {
  return livingBy(pid, readEntry(pid))
}

function livingBy(pid: number, entry: ProcessEntry | undefined): ProcessEntry | undefined {
  if (!entry || entry.state === 'X') return undefined
  return entry.state !== 'Z' || otherThread(pid) !== undefined ? new ScannedEntry(entry) : undefined
}

/** The id of a thread other than the main one. */
function otherThread(pid: number): string | undefined {
  try {
    return readdirSync(`/proc/${pid}/task`).find((thread) => Number(thread) !== pid)
  } catch (error) {
    if (conclusive.has(errno(error))) return undefined
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

/** An entry for a snapshot. Its environment tag is read here only while the process is in the middle of an exec; otherwise on first use. */
function scanned(pid: number): ProcessEntry | undefined | typeof between {
  const stat = read(`/proc/${pid}/stat`)?.toString('latin1')
  if (stat === undefined) return undefined
  const field = fieldsOf(stat)
  if (hasMemory(field) && isUnfinished(field) && readEnvironmentTags(pid) === between) return between
  return livingBy(pid, parseStat(stat, field))
}

/** A process that stays in the middle of an exec counts as living, without a tag. */
function unmarked(pid: number): ProcessEntry | undefined {
  return living(pid) && readEntry(pid)
}

interface Reader<T> {
  readonly pids: () => readonly number[]
  readonly read: (pid: number) => T | undefined | typeof between
  /** Reads a process that is still in the middle of an exec when the wait is over. */
  readonly readHung: (pid: number) => T | undefined
}

/** Reads every process. Reads those in the middle of an exec again until it has finished. Yields where other work may run. */
function* scan<T>(reader: Reader<T>): Generator<undefined, readonly T[]> {
  const found: T[] = []
  const untilMs = monotonicMs() + scanWaitMs
  let left = reader.pids()
  do {
    const again: number[] = []
    for (const [index, pid] of left.entries()) {
      const entry = reader.read(pid)
      if (entry === between) again.push(pid)
      else if (entry !== undefined) found.push(entry)
      if (index % slice === slice - 1) yield
    }
    left = again
    if (left.length > 0) yield
  } while (left.length > 0 && monotonicMs() < untilMs)
  return [...found, ...left.flatMap((pid) => reader.readHung(pid) ?? [])]
}

async function inTurns<T>(steps: Generator<undefined, T>): Promise<T> {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
    await nextTurn()
  }
}

function withoutYielding<T>(steps: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/** Calls during a scan share the next scan: an observation that proves a kill must begin after that kill. */
function sharedScan<T>(reader: Reader<T>): () => Promise<readonly T[]> {
  let next: Promise<readonly T[]> | undefined
  let current: Promise<unknown> = Promise.resolve()
  return () => {
    next ??= current.then(() => {
      next = undefined
      const started = inTurns(scan(reader))
      // The promise `current` only orders the scans, so it ignores their errors. The callers get the error from `started`.
      current = started.catch(() => {})
      return started
    })
    return next
  }
}

const markedReader: Reader<MarkedProcess> = {
  pids: pidsWithoutKernelThreads,
  read: marked,
  readHung: (pid) => markedBy(pid, undefined),
}

export const procTable: ProcessTable = {
  find: living,
  snapshot: sharedScan({ pids, read: scanned, readHung: unmarked }),
  marked: sharedScan(markedReader),
  markedNow: () => withoutYielding(scan(markedReader)),
}

export function pidNamespace(): string {
  return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0'
}
