import { type CloseRequest, type Policy, policyFor, strengthen } from '../model/close-request.ts'
import type { Report } from '../model/report.ts'
import type { Clock } from '../ports/clock.ts'
import type { Progress } from './progress.ts'

/**
 * So much of a forced close is left to the kills and looks after what was owed, or half of it when it is short: on AWS that is a target,
 * a task and a lease, one after the other, with calls of some hundred milliseconds.
 */
const afterObligationsMs = 2_000

/** One close under way. Those who ask again join it, and the stronger wish reaches the running ladder at once (G6). */
export class CloseOperation {
  /** Of its report in the audit trail. */
  readonly id: string
  readonly startedMs: number
  readonly startedAt: string
  report!: Promise<Report>
  progress!: Progress
  readonly #clock: Clock
  #closeRequest: CloseRequest
  #deadlineMs: number
  #forcedMs: number | undefined
  readonly #forced = Promise.withResolvers<void>()
  #recorded: Promise<boolean> = Promise.resolve(true)
  #changed = Promise.withResolvers<void>()

  constructor(clock: Clock, closeRequest: CloseRequest, id: string) {
    this.id = id
    this.#clock = clock
    this.#closeRequest = closeRequest
    this.startedMs = clock.now()
    this.startedAt = clock.wall()
    this.#deadlineMs = this.startedMs + policyFor(closeRequest).deadlineMs
    this.#noteForce()
  }

  #noteForce(): void {
    if (!this.policy.givesUp) return
    this.#forcedMs ??= this.#clock.now()
    this.#forced.resolve()
  }

  /** Settles when it is forced, now or later. */
  get forced(): Promise<void> {
    return this.#forced.promise
  }

  get closeRequest(): CloseRequest {
    return this.#closeRequest
  }

  get policy(): Policy {
    return policyFor(this.#closeRequest)
  }

  remainingMs(): number {
    return Math.max(0, this.#deadlineMs - this.#clock.now())
  }

  /** Nobody said by when, and nobody hurries: what takes its time by nature has it. */
  get isPatient(): boolean {
    return this.#closeRequest.deadlineMs === undefined && !this.policy.givesUp && this.#closeRequest.trigger !== 'process-exit'
  }

  /** How long obligations may still be tried: where they are given up all but a little of the time, which is for the kill. */
  obligationsMs(): number {
    const halfMs = (this.#deadlineMs - (this.#forcedMs ?? this.#deadlineMs)) / 2
    return Math.max(0, this.#deadlineMs - Math.min(afterObligationsMs, halfMs) - this.#clock.now())
  }

  /** `write` stores the wish, as it is now, in the ledger. */
  recordedBy(write: Promise<unknown>): void {
    this.#recorded = write.then(
      () => true,
      () => false,
    )
  }

  /** The ledger has the wish once it has that of the close of the scope above. */
  recordedWith(above: CloseOperation): void {
    this.#recorded = above.isRecorded()
  }

  /** True once the ledger has the wish, with all that joined it; false when the write failed. */
  async isRecorded(): Promise<boolean> {
    for (;;) {
      const recorded = this.#recorded
      const isRecorded = await recorded
      if (recorded === this.#recorded) return isRecorded
    }
  }

  /** Settles when the wish grows stronger. */
  get changed(): Promise<void> {
    return this.#changed.promise
  }

  /** True when the wish did grow stronger. */
  join(closeRequest: CloseRequest): boolean {
    const before = JSON.stringify(this.#closeRequest)
    const wasPatient = this.isPatient
    this.#closeRequest = strengthen(this.#closeRequest, closeRequest)
    if (JSON.stringify(this.#closeRequest) === before) return false
    const nowMs = this.#clock.now()
    // Patience goes beyond the deadline; who joins then, and has none, has at least the time of his own wish.
    const isOver = wasPatient && this.#deadlineMs <= nowMs
    this.#deadlineMs = Math.min(isOver ? Number.POSITIVE_INFINITY : this.#deadlineMs, nowMs + this.policy.deadlineMs)
    this.#noteForce()
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
    return true
  }
}
