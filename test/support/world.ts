import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The independent checker: reads the state of the system from the kernel's files and shares no code with `src/`. So a wrong reading in the
 * engine is not repeated here.
 */

export interface Seen {
  readonly pid: number
  readonly ppid: number
  readonly state: string
  readonly startTime: string
  readonly command: string
  /** Arguments and environment as the kernel keeps them, separated by NUL. */
  readonly argv: string
  readonly environ: string
  /** The cgroups of the process, one line per hierarchy, as in `/proc/PID/cgroup`. */
  readonly cgroups: string
}

/** PF_KTHREAD in the flags of proc_pid_stat(5). Kernel threads are half of `/proc` and never children of a process. */
const kernelThread = 0x00200000

/** All living processes. A zombie counts as dead: it holds nothing, and only its parent can remove it. */
export function processes(): readonly Seen[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => seen(Number(name)) ?? [])
}

export function seen(pid: number): Seen | undefined {
  const stat = text(`/proc/${pid}/stat`)
  // The command in /proc/PID/stat is in parentheses and may itself contain blanks and parentheses. The last parenthesis ends it.
  const parts = /^(\d+) \((.*)\) (.*)$/s.exec(stat)
  if (!parts) return undefined
  const [, , command = '', rest = ''] = parts
  const fields = rest.trim().split(' ')
  const state = fields[0] ?? '?'
  if (state === 'Z' || state === 'X' || (Number(fields[6]) & kernelThread) !== 0) return undefined
  return new SeenProcess(pid, command, state, Number(fields[1]), fields[19] ?? '')
}

/** Reads each file of a process on first use, because most callers need only one of them. */
class SeenProcess implements Seen {
  readonly pid: number
  readonly command: string
  readonly state: string
  readonly ppid: number
  readonly startTime: string
  readonly #texts = new Map<string, string>()

  constructor(pid: number, command: string, state: string, ppid: number, startTime: string) {
    this.pid = pid
    this.command = command
    this.state = state
    this.ppid = ppid
    this.startTime = startTime
  }

  get argv(): string {
    return this.#read('cmdline')
  }

  /** The environment is empty for a moment during an exec, so an empty one is read again. A process that really has none is recognised. */
  get environ(): string {
    const known = this.#texts.get('environ')
    if (known !== undefined) return known
    const until = performance.now() + execMs
    let environ = text(`/proc/${this.pid}/environ`)
    while (environ === '' && mayStillShow(this.pid) && performance.now() < until) environ = text(`/proc/${this.pid}/environ`)
    this.#texts.set('environ', environ)
    return environ
  }

  get cgroups(): string {
    return this.#read('cgroup')
  }

  #read(file: string): string {
    const known = this.#texts.get(file) ?? text(`/proc/${this.pid}/${file}`)
    this.#texts.set(file, known)
    return known
  }
}

/**
 * The longest time for which an empty environment is read again. Under load an exec took 35 ms, and one read of the process list 0.4 s.
 * Only processes in the middle of an exec wait, so the limit can be long.
 */
const execMs = 3_000

/**
 * Whether an environment that reads as empty may become readable: the process has memory, and either its code is not mapped yet, or
 * env_start and env_end differ (proc_pid_stat(5)).
 */
function mayStillShow(pid: number): boolean {
  const stat = text(`/proc/${pid}/stat`)
  const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ')
  const [memory, code, begin, end] = [fields[20], fields[23], fields[47], fields[48]]
  return stat !== '' && memory !== '0' && (code === '0' || begin !== end)
}

function text(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}

/** All processes for which `isWanted` returns true, without this process and its ancestors. */
export function processesWhere(isWanted: (process: Seen) => boolean): readonly Seen[] {
  return strangers(processes()).filter(isWanted)
}

/** Whether the marker is in the environment or on the command line. */
export function isMarked({ environ, argv }: Seen, marker: string): boolean {
  return environ.includes(marker) || argv.includes(marker)
}

/** Whether a process has the home's path in EBB_HOME, carries the tag of its installation, or is in one of its cgroups. */
export function isOfHome({ environ, cgroups }: Seen, home: string, installation: string | undefined): boolean {
  if (`\0${environ}`.includes(`\0EBB_HOME=${home}\0`)) return true
  return installation !== undefined && (cgroups.includes(`/ebb-${installation}`) || carries(environ, installation))
}

export function survivors(marker: string): readonly Seen[] {
  return processesWhere((found) => isMarked(found, marker))
}

export function processesOfHome(home: string, installation: string | undefined): readonly Seen[] {
  return processesWhere((found) => isOfHome(found, home, installation))
}

function carries(environ: string, installation: string): boolean {
  const environmentTags = /(?:^|\0)EBB_SCOPE=([^\0]*)/.exec(environ)?.[1] ?? ''
  return environmentTags.split(':').some((environmentTag) => environmentTag.startsWith(`${installation}/`))
}

function strangers(all: readonly Seen[]): readonly Seen[] {
  const byPid = new Map(all.map((found) => [found.pid, found]))
  const family = new Set<number>()
  for (let pid = process.pid; pid > 0 && !family.has(pid); pid = byPid.get(pid)?.ppid ?? 0) family.add(pid)
  return all.filter(({ pid }) => !family.has(pid))
}

export interface Hierarchy {
  readonly version: 1 | 2
  readonly mountPoint: string
  /** The controllers of a v1 hierarchy. */
  readonly controllers: readonly string[]
}

/** All mounted cgroup hierarchies of both versions. */
export function hierarchies(): readonly Hierarchy[] {
  return text('/proc/self/mountinfo')
    .split('\n')
    .flatMap((line) => {
      const [before = '', after = ''] = line.split(' - ')
      const [type = '', , options = ''] = after.split(' ')
      const mountPoint = before.split(' ')[4] ?? ''
      if (type !== 'cgroup' && type !== 'cgroup2') return []
      return [{ version: type === 'cgroup' ? (1 as const) : (2 as const), mountPoint, controllers: options.split(',') }]
    })
}

/** The cgroup of this process in the v2 hierarchy. Supervisors that it starts create their cgroups there. */
export function ownCgroup2(): string | undefined {
  const mount = hierarchies().find(({ version }) => version === 2)
  const path = /^0::(.*)$/m.exec(text('/proc/self/cgroup'))?.[1]
  return mount && path !== undefined ? join(mount.mountPoint, path) : undefined
}

/** Directories of an installation in any hierarchy: `ebb-ID`, and `ebb-ID.…` for the limits of v1. */
export function cgroupsOf(installation: string | undefined): readonly string[] {
  if (installation === undefined) return []
  const name = `ebb-${installation}`
  return hierarchies().flatMap(({ mountPoint }) => find(mountPoint, (entry) => entry === name || entry.startsWith(`${name}.`)))
}

function find(directory: string, isWanted: (name: string) => boolean): readonly string[] {
  return folders(directory).flatMap((name) => {
    const path = join(directory, name)
    return isWanted(name) ? [path, ...find(path, isWanted)] : find(path, isWanted)
  })
}

/** A cgroup may be removed while the tree is read. */
export function folders(directory: string): readonly string[] {
  try {
    return readdirSync(directory, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name)
  } catch {
    return []
  }
}

export function describe(process: Seen): string {
  return `${process.pid} ${process.state} ${process.argv.replaceAll('\0', ' ').trim() || process.command}`
}

/** Interval between two checks. Every wait ends at a deadline, never after a number of checks. */
const checkEveryMs = 10

type Answer = boolean | readonly unknown[]

/** Repeats `check` until it returns `true` or an empty list of obstacles. At the deadline it throws and names the obstacles. */
export async function waitUntil(check: () => Answer | Promise<Answer>, deadlineMs: number, what: string): Promise<void> {
  const until = performance.now() + deadlineMs
  for (;;) {
    const answer = await check()
    if (answer === true || (Array.isArray(answer) && answer.length === 0)) return
    if (performance.now() > until) throw new Error(`Not within ${deadlineMs} ms: ${what}${left(answer)}`)
    await new Promise((resolve) => setTimeout(resolve, checkEveryMs))
  }
}

function left(answer: Answer): string {
  return typeof answer === 'boolean'
    ? ''
    : `; left:\n  ${answer.map((item) => (typeof item === 'string' ? item : JSON.stringify(item))).join('\n  ')}`
}
