import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The independent checker: looks at the world with its own eyes, through the kernel's files alone, and shares no code
 * with `src/`. What the engine overlooks by a wrong reading, this must not overlook by the same one.
 */

export interface Seen {
  readonly pid: number
  readonly ppid: number
  readonly state: string
  readonly startTime: string
  readonly command: string
  /** As the kernel keeps them, parted by NUL. */
  readonly argv: string
  readonly environ: string
  /** Its line in every hierarchy, as `/proc/PID/cgroup` has it. */
  readonly cgroups: string
}

/** PF_KTHREAD of proc_pid_stat(5)'s flags: half of what is in `/proc`, and never anybody's child. */
const kernelThread = 0x00200000

/** Every living process. A zombie is dead: it holds nothing, and only its parent can make it vanish. */
export function processes(): readonly Seen[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => seen(Number(name)) ?? [])
}

export function seen(pid: number): Seen | undefined {
  const stat = text(`/proc/${pid}/stat`)
  // The command may hold blanks and parentheses itself; the last one closes it.
  const parts = /^(\d+) \((.*)\) (.*)$/s.exec(stat)
  if (!parts) return undefined
  const [, , command = '', rest = ''] = parts
  const fields = rest.trim().split(' ')
  const state = fields[0] ?? '?'
  if (state === 'Z' || state === 'X' || (Number(fields[6]) & kernelThread) !== 0) return undefined
  return new SeenProcess(pid, command, state, Number(fields[1]), fields[19] ?? '')
}

/** Most are looked at for one thing only: what nobody asks for is not read. */
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

  /** Nothing is shown of a process that becomes another program just now, so it is asked again; one that has none is believed. */
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

/** Under load an exec has been seen to take 35 ms, and a look 0.4 s. Nobody else is waited for, so it may be long. */
const execMs = 3_000

/** proc_pid_stat(5): it has memory, and its code is not there yet, or where its environment begins and ends says that it has one. */
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

/** Never ourselves or our ancestors. */
export function processesWhere(isWanted: (one: Seen) => boolean): readonly Seen[] {
  return strangers(processes()).filter(isWanted)
}

/** It carries the marker in its environment or on its command line. */
export function isMarked({ environ, argv }: Seen, marker: string): boolean {
  return environ.includes(marker) || argv.includes(marker)
}

/** It was told the path of the home, is marked with its installation, or stands in one of its cgroups. */
export function isOfHome({ environ, cgroups }: Seen, home: string, installation: string | undefined): boolean {
  if (`\0${environ}`.includes(`\0EBB_HOME=${home}\0`)) return true
  return installation !== undefined && (cgroups.includes(`/ebb-${installation}`) || carries(environ, installation))
}

export function survivors(marker: string): readonly Seen[] {
  return processesWhere((one) => isMarked(one, marker))
}

export function processesOfHome(home: string, installation: string | undefined): readonly Seen[] {
  return processesWhere((one) => isOfHome(one, home, installation))
}

function carries(environ: string, installation: string): boolean {
  const environmentTags = /(?:^|\0)EBB_SCOPE=([^\0]*)/.exec(environ)?.[1] ?? ''
  return environmentTags.split(':').some((environmentTag) => environmentTag.startsWith(`${installation}/`))
}

function strangers(all: readonly Seen[]): readonly Seen[] {
  const byPid = new Map(all.map((one) => [one.pid, one]))
  const family = new Set<number>()
  for (let pid = process.pid; pid > 0 && !family.has(pid); pid = byPid.get(pid)?.ppid ?? 0) family.add(pid)
  return all.filter(({ pid }) => !family.has(pid))
}

export interface Hierarchy {
  readonly version: 1 | 2
  readonly mountPoint: string
  /** v1 only: the controllers it has. */
  readonly controllers: readonly string[]
}

/** Every mounted cgroup hierarchy, of both versions. */
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

/** Our own cgroup in the v2 hierarchy: where a supervisor that we start makes its cgroups. */
export function ownCgroup2(): string | undefined {
  const mount = hierarchies().find(({ version }) => version === 2)
  const path = /^0::(.*)$/m.exec(text('/proc/self/cgroup'))?.[1]
  return mount && path !== undefined ? join(mount.mountPoint, path) : undefined
}

/** Directories of an installation in any hierarchy: `ebb-ID`, and v1's limits, `ebb-ID.…`. */
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

/** A cgroup may go while we walk. */
export function folders(directory: string): readonly string[] {
  try {
    return readdirSync(directory, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name)
  } catch {
    return []
  }
}

export function describe(one: Seen): string {
  return `${one.pid} ${one.state} ${one.argv.replaceAll('\0', ' ').trim() || one.command}`
}

/** Between two looks; every wait here ends at a deadline, never at a count of looks. */
const lookEveryMs = 10

type Answer = boolean | readonly unknown[]

/**
 * Looks again and again until there is nothing left to wait for: `true`, or an empty list of what is still in the way.
 * Throws at the deadline and names that list.
 */
export async function waitUntil(look: () => Answer | Promise<Answer>, deadlineMs: number, what: string): Promise<void> {
  const until = performance.now() + deadlineMs
  for (;;) {
    const answer = await look()
    if (answer === true || (Array.isArray(answer) && answer.length === 0)) return
    if (performance.now() > until) throw new Error(`Not within ${deadlineMs} ms: ${what}${left(answer)}`)
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
  }
}

function left(answer: Answer): string {
  return typeof answer === 'boolean'
    ? ''
    : `; left:\n  ${answer.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join('\n  ')}`
}
