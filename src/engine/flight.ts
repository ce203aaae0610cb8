import { type Policy, policyFor } from '../domain/policy.ts'
import type { Report } from '../domain/report.ts'
import { strengthen, type Wish } from '../domain/scope.ts'
import type { Clock } from '../ports/clock.ts'

/** One close under way. Those who ask again join it, and the stronger wish reaches the running ladder at once (G6). */
export class Flight {
  /** Of its report in the audit trail. */
  readonly id: string
  readonly startedMs: number
  readonly startedAt: string
  report!: Promise<Report>
  readonly #clock: Clock
  #wish: Wish
  #deadlineMs: number
  #forcedMs: number | undefined
  #changed = Promise.withResolvers<void>()

  constructor(clock: Clock, wish: Wish, id: string) {
    this.id = id
    this.#clock = clock
    this.#wish = wish
    this.startedMs = clock.now()
    this.startedAt = clock.wall()
    this.#deadlineMs = this.startedMs + policyFor(wish).deadlineMs
    this.#noteForce()
  }

  #noteForce(): void {
    if (this.policy.givesUp) this.#forcedMs ??= this.#clock.now()
  }

  get wish(): Wish {
    return this.#wish
  }

  get policy(): Policy {
    return policyFor(this.#wish)
  }

  remainingMs(): number {
    return Math.max(0, this.#deadlineMs - this.#clock.now())
  }

  /** How long obligations may still be tried: where they are given up half of the time, because the other half is for the kill. */
  obligationsMs(): number {
    const untilMs = this.#forcedMs === undefined ? this.#deadlineMs : (this.#forcedMs + this.#deadlineMs) / 2
    return Math.max(0, untilMs - this.#clock.now())
  }

  /** Settles when the wish grows stronger. */
  get changed(): Promise<void> {
    return this.#changed.promise
  }

  /** True when the wish did grow stronger. */
  join(wish: Wish): boolean {
    const before = JSON.stringify(this.#wish)
    this.#wish = strengthen(this.#wish, wish)
    if (JSON.stringify(this.#wish) === before) return false
    this.#deadlineMs = Math.min(this.#deadlineMs, this.#clock.now() + this.policy.deadlineMs)
    this.#noteForce()
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
    return true
  }
}
