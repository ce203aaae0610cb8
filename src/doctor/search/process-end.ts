import { closeSync, readFileSync } from 'node:fs'
import type { Clock } from '../../core/ports/clock.ts'
import type { Effects } from '../../core/ports/effects.ts'
import { type Kernel, openKernel } from '../../host/ffi.ts'
import type { EndStep, LeftoverEnd, ProcessName } from '../judgement/leftover.ts'
import { isEbbs } from '../judgement/leftover-process.ts'
import { childrenIn, type ProcessFact } from '../judgement/process-fact.ts'
import { environOf, readText, startTimeOf, ticksPerSecond } from './proc-facts.ts'

/**
 * Ends a process and all its descendants by the ladder. They count as gone only after two consecutive scans found none of them.
 * Right before every signal the identity of the process is checked; where the kernel has pidfds, the signal goes through one (G10). A
 * process that was not shown to the user is ended only when one of the shown processes has started it since.
 */
export interface ProcessEnding {
  readonly clock: Clock
  readonly effects: Pick<Effects, 'signal' | 'signalPinned'>
  /** Reads the process table; the scan begins after the call. */
  readonly readTable: () => Promise<ReadonlyMap<number, ProcessFact>>
  readonly graceMs: number
  readonly killMs: number
  /** Processes that may be in use. They are never ended, also not as descendants. */
  readonly spared: readonly ProcessName[]
}

const rescanMs = 20
const emptyPassesNeeded = 2

interface SignalPlan {
  /** The signals that each process gets when it is first found. */
  readonly first: readonly NodeJS.Signals[]
  /** The signals that all remaining processes get once a scan finds no new one. */
  readonly after: readonly NodeJS.Signals[]
}

/** A stopped process handles SIGTERM only after SIGCONT. */
const terminating: SignalPlan = { first: ['SIGTERM', 'SIGCONT'], after: [] }

/** A stopped process cannot fork, so all are stopped before they are killed. */
const killing: SignalPlan = { first: ['SIGSTOP'], after: ['SIGKILL'] }

type EndResult = Pick<LeftoverEnd, 'outcome' | 'steps' | 'says'>

export async function endProcesses(
  first: readonly ProcessName[],
  { clock, effects, readTable, graceMs, killMs, spared }: ProcessEnding,
): Promise<EndResult> {
  const group = new Group(first, { effects, readTable, spared })
  const steps: { step: EndStep; took: number }[] = []
  const climb = async (step: EndStep, budgetMs: number, plan: SignalPlan): Promise<boolean> => {
    const began = clock.now()
    const isGone = await group.gone(clock, budgetMs, plan)
    steps.push({ step, took: Math.round(clock.now() - began) })
    return isGone
  }
  try {
    const isGone = (await climb('terminate', graceMs, terminating)) || (await climb('kill', killMs, killing))
    const count = group.known.size
    if (isGone)
      return {
        outcome: 'gone',
        steps,
        says: `Two consecutive scans of /proc found ${count === 1 ? 'no process' : `none of the ${count} processes`} of it.`,
      }
    const left = (await group.living()).map(({ pid, command }) => `${command} (pid ${pid})`)
    return { outcome: 'left', steps, says: `Still running after SIGKILL: ${left.join(', ')}${group.refusal}.` }
  } finally {
    group.close()
  }
}

interface SeenProcess {
  readonly fact: ProcessFact
  readonly environ: string | undefined
}

/** The time since the boot in clock ticks, as in the start times of processes. One tick less, because both are rounded. */
function nowTicks(): number {
  return Math.floor(Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * ticksPerSecond) - 1
}

class Group {
  /** Every process that was ever found in the group, by pid and start time. */
  readonly known = new Map<string, ProcessName>()
  /** Sessions that a process of the group leads: a child that loses its parents stays in its session. */
  readonly #sessions = new Set<number>()
  readonly #seen = new Map<string, SeenProcess>()
  /** The start of this operation, in clock ticks. A process that started earlier and was not in the group then cannot be its child. */
  readonly #began = nowTicks()
  /**
   * The two previous scans: when each began, in clock ticks, and the processes of the group that it found. Two, because a scan that finds a
   * process gone may have read the part of /proc with its child before the fork.
   */
  #previous: readonly { readonly began: number; readonly living: readonly string[] }[] = []
  readonly #kernel = kernel()
  readonly #pins = new Map<string, number>()
  refusal = ''

  /** The process that adopted the first process of the group, and so adopts its other orphans. */
  #adopter: number | undefined

  readonly #effects: ProcessEnding['effects']
  readonly #readTable: ProcessEnding['readTable']
  readonly #spared: Set<string>

  constructor(first: readonly ProcessName[], { effects, readTable, spared }: Pick<ProcessEnding, 'effects' | 'readTable' | 'spared'>) {
    this.#effects = effects
    this.#readTable = readTable
    this.#spared = new Set(spared.map(keyOf))
    for (const target of first) if (!this.#spared.has(keyOf(target))) this.known.set(keyOf(target), target)
  }

  async living(): Promise<readonly ProcessFact[]> {
    const began = nowTicks()
    const table = await this.#readTable()
    const children = childrenIn(table.values())
    const found = [...table.values()].filter((target) => this.known.has(keyOf(target)))
    this.#adopter ??= found.find((target) => target.pid === [...this.known.values()][0]?.pid)?.ppid
    for (const target of found) if (target.sid === target.pid) this.#sessions.add(target.sid)
    const all = new Map(found.map((target) => [target.pid, target]))
    const hopped = this.#hopped(table)
    for (const target of table.values()) if (!all.has(target.pid) && this.#joins(target, hopped)) all.set(target.pid, target)
    // Iterating a Map also visits the entries that are added meanwhile.
    for (const [pid] of all)
      for (const child of children.get(pid) ?? []) if (!all.has(child.pid) && this.#mayEnd(child)) all.set(child.pid, child)
    for (const target of all.values()) {
      this.known.set(keyOf(target), { pid: target.pid, startTime: target.startTime })
      if (!this.#seen.has(keyOf(target))) this.#seen.set(keyOf(target), { fact: target, environ: environOf(target.pid)?.join('\0') })
    }
    this.#previous = [...this.#previous.slice(-1), { began, living: [...all.values()].map(keyOf) }]
    return [...all.values()]
  }

  /**
   * Whether a process that has no parent in the group joins it. A process that was in the session before this operation may be in use or
   * belong to an Ebb, so only younger processes join.
   */
  #joins(target: ProcessFact, hopped: readonly SeenProcess[]): boolean {
    if (Number(target.startTime) < this.#began) return false
    return (this.#sessions.has(target.sid) || this.#isHop(target, hopped)) && this.#mayEnd(target)
  }

  #mayEnd(target: ProcessFact): boolean {
    if (target.pid === process.pid || this.#spared.has(keyOf(target))) return false
    if (this.known.has(keyOf(target))) return true
    if (!isEbbs(target.argv, environOf(target.pid) ?? [], readText(`/proc/${target.pid}/cgroup`) ?? '')) return true
    this.#spared.add(keyOf(target))
    return false
  }

  /** The processes of the group that went since the previous two scans. Only these may have forked a process that lost its parent since. */
  #hopped(table: ReadonlyMap<number, ProcessFact>): readonly SeenProcess[] {
    const now = new Set([...table.values()].map(keyOf))
    const before = new Set(this.#previous.flatMap(({ living }) => living))
    return [...before].filter((key) => !now.has(key)).flatMap((key) => this.#seen.get(key) ?? [])
  }

  /**
   * True for the child of a process of the group that forked and exited between two scans. Such a child was adopted, is
   * younger than these scans, and has the command line and the environment of a process that went meanwhile. A foreign process that looks
   * the same, such as the same agent started again, does not count (G10).
   */
  #isHop(target: ProcessFact, hopped: readonly SeenProcess[]): boolean {
    if (this.known.has(keyOf(target)) || target.ppid !== this.#adopter) return false
    if (Number(target.startTime) < (this.#previous[0]?.began ?? 0)) return false
    const words = target.argv.join('\0')
    const likes = hopped.filter(({ fact }) => fact.uid === target.uid && fact.argv.join('\0') === words)
    const environ = likes.length === 0 ? undefined : environOf(target.pid)?.join('\0')
    return environ !== undefined && likes.some((like) => like.environ === environ)
  }

  /** Signals every process once, and each new process when a scan finds it. True when all are gone within the budget. */
  async gone(clock: Clock, budgetMs: number, { first, after }: SignalPlan): Promise<boolean> {
    const signalled = new Set<string>()
    const until = clock.now() + budgetMs
    for (let empty = 0; ; ) {
      const living = await this.living()
      empty = living.length === 0 ? empty + 1 : 0
      if (empty >= emptyPassesNeeded) return true
      if (living.length > 0 && clock.now() > until) return false
      const fresh = living.filter((target) => !signalled.has(keyOf(target)))
      for (const target of fresh) {
        signalled.add(keyOf(target))
        this.signal(target, ...first)
      }
      // After new processes the next scan follows at once, because they may have forked meanwhile.
      if (fresh.length > 0 || living.length === 0) continue
      for (const target of living) this.signal(target, ...after)
      await new Promise<void>((resolve) => clock.after(rescanMs, new AbortController().signal, resolve))
    }
  }

  signal(target: ProcessName, ...signals: readonly NodeJS.Signals[]): void {
    const pin = this.#pin(target)
    for (const signal of signals) {
      if (startTimeOf(target.pid) !== target.startTime) return
      try {
        if (pin === undefined) this.#effects.signal(target.pid, signal)
        else if (!this.#effects.signalPinned(pin, signal) && startTimeOf(target.pid) === target.startTime)
          this.refusal = ' (the signal was refused)'
      } catch (error) {
        this.refusal = ` (${error instanceof Error ? error.message : String(error)})`
      }
    }
  }

  /** A pidfd of a process. It is opened before the start time is checked, so that after the check it refers to this process or to none. */
  #pin(target: ProcessName): number | undefined {
    const key = keyOf(target)
    const pin = this.#pins.get(key) ?? this.#kernel?.openPidfd(target.pid)
    if (pin !== undefined) this.#pins.set(key, pin)
    return pin
  }

  close(): void {
    for (const pin of this.#pins.values()) closeSync(pin)
  }
}

const keyOf = ({ pid, startTime }: ProcessName): string => `${pid}:${startTime}`

/** Without the kernel bindings there are no pidfds, and only the start time identifies a process. */
function kernel(): Kernel | undefined {
  try {
    return openKernel()
  } catch {
    return undefined
  }
}
