import { closeSync, readFileSync } from 'node:fs'
import type { Clock } from '../../core/ports/clock.ts'
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
  /** Sent to each process when it is first found. */
  readonly first: readonly NodeJS.Signals[]
  /** Sent to all remaining processes once a scan finds no new one. */
  readonly after: readonly NodeJS.Signals[]
}

/** A stopped process handles SIGTERM only after SIGCONT. */
const terminating: SignalPlan = { first: ['SIGTERM', 'SIGCONT'], after: [] }

/** A stopped process cannot fork, so all are stopped before they are killed. */
const killing: SignalPlan = { first: ['SIGSTOP'], after: ['SIGKILL'] }

type EndResult = Pick<LeftoverEnd, 'outcome' | 'steps' | 'says'>

export async function endProcesses(
  first: readonly ProcessName[],
  { clock, readTable, graceMs, killMs, spared }: ProcessEnding,
): Promise<EndResult> {
  const group = new Group(first, readTable, spared)
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

class Group {
  /** Every process that was ever found in the group, by pid and start time. */
  readonly known = new Map<string, ProcessName>()
  /** Sessions that a process of the group leads: a child that loses its parents stays in its session. */
  readonly #sessions = new Set<number>()
  readonly #seen = new Map<string, { readonly fact: ProcessFact; readonly environ: string | undefined }>()
  /** The start of this operation, in clock ticks. An older process that is not known yet is not a child of the group. */
  readonly #began = Math.floor(Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * ticksPerSecond) - 1
  readonly #kernel = kernel()
  readonly #pins = new Map<string, number>()
  refusal = ''

  /** The process that adopted the first process of the group, and so adopts its other orphans. */
  #adopter: number | undefined

  readonly #readTable: ProcessEnding['readTable']
  readonly #spared: Set<string>

  constructor(first: readonly ProcessName[], readTable: ProcessEnding['readTable'], spared: readonly ProcessName[]) {
    this.#readTable = readTable
    this.#spared = new Set(spared.map(keyOf))
    for (const one of first) if (!this.#spared.has(keyOf(one))) this.known.set(keyOf(one), one)
  }

  async living(): Promise<readonly ProcessFact[]> {
    const table = await this.#readTable()
    const children = childrenIn(table.values())
    const found = [...table.values()].filter((one) => this.known.has(keyOf(one)))
    this.#adopter ??= found.find((one) => one.pid === [...this.known.values()][0]?.pid)?.ppid
    for (const one of found) if (one.sid === one.pid) this.#sessions.add(one.sid)
    const all = new Map(found.map((one) => [one.pid, one]))
    for (const one of table.values()) if (!all.has(one.pid) && this.#joins(one)) all.set(one.pid, one)
    // Iterating a Map also visits the entries that are added meanwhile.
    for (const [pid] of all)
      for (const child of children.get(pid) ?? []) if (!all.has(child.pid) && this.#mayEnd(child)) all.set(child.pid, child)
    for (const one of all.values()) {
      this.known.set(keyOf(one), { pid: one.pid, startTime: one.startTime })
      if (!this.#seen.has(keyOf(one))) this.#seen.set(keyOf(one), { fact: one, environ: environOf(one.pid)?.join('\0') })
    }
    return [...all.values()]
  }

  /** A process that was in the session before may be in use or belong to an Ebb, so only younger processes join. */
  #joins(one: ProcessFact): boolean {
    if (Number(one.startTime) < this.#began) return false
    return (this.#sessions.has(one.sid) || this.#isHop(one)) && this.#mayEnd(one)
  }

  #mayEnd(one: ProcessFact): boolean {
    if (one.pid === process.pid || this.#spared.has(keyOf(one))) return false
    if (this.known.has(keyOf(one))) return true
    if (!isEbbs(one.argv, environOf(one.pid) ?? [], readText(`/proc/${one.pid}/cgroup`) ?? '')) return true
    this.#spared.add(keyOf(one))
    return false
  }

  /**
   * A process of the group forked and exited between two scans. Its child was adopted, is younger, and has the same command line
   * and the same environment. A process that only shares an older session does not count.
   */
  #isHop(one: ProcessFact): boolean {
    if (this.known.has(keyOf(one)) || one.ppid !== this.#adopter) return false
    const words = one.argv.join('\0')
    const likes = [...this.#seen.values()].filter(({ fact }) => fact.uid === one.uid && fact.argv.join('\0') === words)
    const environ = likes.length === 0 ? undefined : environOf(one.pid)?.join('\0')
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
      const fresh = living.filter((one) => !signalled.has(keyOf(one)))
      for (const one of fresh) {
        signalled.add(keyOf(one))
        this.signal(one, ...first)
      }
      // Processes that were forked meanwhile are searched for at once.
      if (fresh.length > 0 || living.length === 0) continue
      for (const one of living) this.signal(one, ...after)
      await new Promise<void>((resolve) => clock.after(rescanMs, new AbortController().signal, resolve))
    }
  }

  signal(one: ProcessName, ...signals: readonly NodeJS.Signals[]): void {
    const pin = this.#pin(one)
    for (const signal of signals) {
      if (startTimeOf(one.pid) !== one.startTime) return
      try {
        if (pin === undefined) process.kill(one.pid, signal)
        else if (!this.#kernel?.signalPidfd(pin, signal) && startTimeOf(one.pid) === one.startTime)
          this.refusal = ' (the signal was refused)'
      } catch (error) {
        this.refusal = ` (${error instanceof Error ? error.message : String(error)})`
      }
    }
  }

  /** The pidfd is opened before the start time is checked: from then on it refers to this process, or to none. */
  #pin(one: ProcessName): number | undefined {
    const key = keyOf(one)
    const pin = this.#pins.get(key) ?? this.#kernel?.openPidfd(one.pid)
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
