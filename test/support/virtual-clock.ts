import type { Cancellation, Clock } from '../../src/core/ports/clock.ts'

interface Timer {
  readonly atMs: number
  readonly order: number
  readonly signal: Cancellation
  readonly callback: () => void
}

/** After this many rounds without a timer and without progress, the work counts as a hang. */
const idleRoundsAllowed = 20

/** A clock whose time passes only when nothing else can happen. An hour of deadlines takes a millisecond. */
export class VirtualClock implements Clock {
  readonly #turns: number
  #nowMs = 1_000
  #order = 0
  #timers: Timer[] = []

  /** `turns` is the number of event loop turns in which everything happens that needs no time, group commits included. */
  constructor(turns = 3) {
    this.#turns = turns
  }

  now(): number {
    return this.#nowMs
  }

  wall(): string {
    return new Date(this.#nowMs).toISOString()
  }

  after(ms: number, signal: Cancellation, callback: () => void): void {
    if (!signal.aborted && ms !== Number.POSITIVE_INFINITY)
      this.#timers.push({ atMs: this.#nowMs + Math.max(0, ms), order: this.#order++, signal, callback })
  }

  every(ms: number, signal: AbortSignal, callback: () => void): void {
    this.after(ms, signal, () => {
      callback()
      this.every(ms, signal, callback)
    })
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, new AbortController().signal, resolve))
  }

  /** Lets time pass until the work is done. */
  async run<T>(work: Promise<T>): Promise<T> {
    const progress = { isDone: false }
    const over = work.finally(() => {
      progress.isDone = true
    })
    over.catch(() => {}) // `run` awaits the same promise below, and throws its error there.
    for (let idle = 0; idle <= idleRoundsAllowed; ) {
      for (let turn = 0; turn < this.#turns; turn++) await new Promise<void>((resolve) => setImmediate(resolve))
      if (progress.isDone) return await over
      idle = this.#fireNext() ? 0 : idle + 1
    }
    throw new Error('The simulated work hangs: no timer is left and it is not done.')
  }

  #fireNext(): boolean {
    this.#timers = this.#timers.filter((timer) => !timer.signal.aborted)
    const [first, ...rest] = this.#timers.toSorted((a, b) => a.atMs - b.atMs || a.order - b.order)
    if (!first) return false
    this.#timers = rest
    this.#nowMs = Math.max(this.#nowMs, first.atMs)
    first.callback()
    return true
  }
}
