import { type Policy, policyFor } from '../domain/policy.ts'
import type { Report } from '../domain/report.ts'
import { strengthen, type Wish } from '../domain/scope.ts'
import type { Clock } from '../ports/clock.ts'

/** One close under way. Those who ask again join it, and the stronger wish reaches the running ladder at once (G6). */
export class Flight {
  readonly startedMs: number
  readonly startedAt: string
  report!: Promise<Report>
  readonly #clock: Clock
  #wish: Wish
  #deadlineMs: number
  #changed = Promise.withResolvers<void>()

  constructor(clock: Clock, wish: Wish) {
    this.#clock = clock
    this.#wish = wish
    this.startedMs = clock.now()
    this.startedAt = clock.wall()
    this.#deadlineMs = this.startedMs + policyFor(wish).deadlineMs
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
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
    return true
  }
}
