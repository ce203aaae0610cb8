import { closeSync, readFileSync } from 'node:fs'
import type { Clock } from '../../core/ports/clock.ts'
import { type Kernel, openKernel } from '../../host/ffi.ts'
import type { EndStep, LeftoverEnd, ProcessName } from '../judgement/leftover.ts'
import { isEbbs } from '../judgement/leftover-process.ts'
import { childrenIn, type ProcessFact } from '../judgement/process-fact.ts'
import { environOf, readText, startTimeOf, ticksPerSecond } from './proc-facts.ts'

/**
 * Ends a process and everybody below it by the ladder, and says that they are gone only after two looks found none of them. Every
 * signal goes to a process that was seen to be the same right before, by a pidfd where the kernel has them (G10). Who was not shown is
 * ended only when it was born since, to one of them.
 */
export interface ProcessEnding {
  readonly clock: Clock
  /** All processes, by a look that begins after the call. */
  readonly look: () => Promise<ReadonlyMap<number, ProcessFact>>
  readonly graceMs: number
  readonly killMs: number
  /** Those that may be in use, wherever they are. */
  readonly spared: readonly ProcessName[]
}

const rescanMs = 20
const emptyPassesNeeded = 2

interface Telling {
  /** To each when it is met. */
  readonly first: readonly NodeJS.Signals[]
  /** To all that are left once nobody new is met. */
  readonly after: readonly NodeJS.Signals[]
}

/** SIGTERM waits in a stopped process until it runs again. */
const terminating: Telling = { first: ['SIGTERM', 'SIGCONT'], after: [] }

/** Who is stopped forks no more; then they die. */
const killing: Telling = { first: ['SIGSTOP'], after: ['SIGKILL'] }

type Told = Pick<LeftoverEnd, 'outcome' | 'steps' | 'says'>

export async function endProcesses(first: readonly ProcessName[], { clock, look, graceMs, killMs, spared }: ProcessEnding): Promise<Told> {
  const group = new Group(first, look, spared)
  const steps: { step: EndStep; took: number }[] = []
  const climb = async (step: EndStep, budgetMs: number, telling: Telling): Promise<boolean> => {
    const began = clock.now()
    const isGone = await group.gone(clock, budgetMs, telling)
    steps.push({ step, took: Math.round(clock.now() - began) })
    return isGone
  }
  try {
    const isGone = (await climb('terminate', graceMs, terminating)) || (await climb('kill', killMs, killing))
    const count = group.known.size
    if (isGone)
      return { outcome: 'gone', steps, says: `Two looks at /proc found none of its ${count === 1 ? 'one process' : `${count} processes`}.` }
    const left = (await group.living()).map(({ pid, command }) => `${command} (pid ${pid})`)
    return { outcome: 'left', steps, says: `Still there after SIGKILL: ${left.join(', ')}${group.refusal}.` }
  } finally {
    group.close()
  }
}

class Group {
  /** Everybody who was ever seen in it, by pid and start time. */
  readonly known = new Map<string, ProcessName>()
  /** Sessions that began in it: who is born in one of them and leaves its parents stays there. */
  readonly #sessions = new Set<number>()
  readonly #seen = new Map<string, { readonly fact: ProcessFact; readonly environ: string | undefined }>()
  /** In the unit of start times; who is older is no child of theirs that we have not met. */
  readonly #began = Math.floor(Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * ticksPerSecond) - 1
  readonly #kernel = kernel()
  readonly #pins = new Map<string, number>()
  refusal = ''

  /** Who adopted the first of them, and so adopts the others. */
  #adopter: number | undefined

  readonly #look: ProcessEnding['look']
  readonly #spared: Set<string>

  constructor(first: readonly ProcessName[], look: ProcessEnding['look'], spared: readonly ProcessName[]) {
    this.#look = look
    this.#spared = new Set(spared.map(keyOf))
    for (const one of first) if (!this.#spared.has(keyOf(one))) this.known.set(keyOf(one), one)
  }

  async living(): Promise<readonly ProcessFact[]> {
    const table = await this.#look()
    const children = childrenIn(table.values())
    const found = [...table.values()].filter((one) => this.known.has(keyOf(one)))
    this.#adopter ??= found.find((one) => one.pid === [...this.known.values()][0]?.pid)?.ppid
    for (const one of found) if (one.sid === one.pid) this.#sessions.add(one.sid)
    const all = new Map(found.map((one) => [one.pid, one]))
    for (const one of table.values()) if (!all.has(one.pid) && this.#joins(one)) all.set(one.pid, one)
    // Grows while it is walked.
    for (const [pid] of all)
      for (const child of children.get(pid) ?? []) if (!all.has(child.pid) && this.#mayEnd(child)) all.set(child.pid, child)
    for (const one of all.values()) {
      this.known.set(keyOf(one), { pid: one.pid, startTime: one.startTime })
      if (!this.#seen.has(keyOf(one))) this.#seen.set(keyOf(one), { fact: one, environ: environOf(one.pid)?.join('\0') })
    }
    return [...all.values()]
  }

  /** Who was in the session before may be anybody's: what is listed as perhaps in use, or an Ebb's. */
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
   * One of them forked and left before it was looked at: the child was adopted, is younger, and is the same program with the same
   * words and the same environment. Who is merely in the same old session is somebody's.
   */
  #isHop(one: ProcessFact): boolean {
    if (this.known.has(keyOf(one)) || one.ppid !== this.#adopter) return false
    const words = one.argv.join('\0')
    const likes = [...this.#seen.values()].filter(({ fact }) => fact.uid === one.uid && fact.argv.join('\0') === words)
    const environ = likes.length === 0 ? undefined : environOf(one.pid)?.join('\0')
    return environ !== undefined && likes.some((like) => like.environ === environ)
  }

  /** Tells everybody once, and whoever comes later when it comes. */
  async gone(clock: Clock, budgetMs: number, { first, after }: Telling): Promise<boolean> {
    const told = new Set<string>()
    const until = clock.now() + budgetMs
    for (let empty = 0; ; ) {
      const living = await this.living()
      empty = living.length === 0 ? empty + 1 : 0
      if (empty >= emptyPassesNeeded) return true
      if (living.length > 0 && clock.now() > until) return false
      const fresh = living.filter((one) => !told.has(keyOf(one)))
      for (const one of fresh) {
        told.add(keyOf(one))
        this.signal(one, ...first)
      }
      // Who was forked meanwhile is looked for at once.
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

  /** Opened first, then looked at: from then on it means this process, or nobody. */
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

/** Optional, and then the start time alone has to do. */
function kernel(): Kernel | undefined {
  try {
    return openKernel()
  } catch {
    return undefined
  }
}
