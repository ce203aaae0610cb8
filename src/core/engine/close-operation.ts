import { type CloseRequest, type Policy, policyFor, strengthen } from '../model/close-request.ts'
import type { Report } from '../model/report.ts'
import type { Clock } from '../ports/clock.ts'
import type { Progress } from './progress.ts'

/**
 * The part of a forced close that is reserved for kills and observations after the obligations. When less than twice this time is left,
 * half of it is reserved. An ECS agent needs the reserve: its target, task and lease are released one after the other, with calls that take
 * some hundred milliseconds each.
 */
const afterObligationsMs = 2_000

/** A running close. Further close requests for the scope join it, and a stronger one affects the running ladder at once (G6). */
export class CloseOperation {
  /** The id of the close's report in the audit trail. */
  readonly id: string
  readonly startedMs: number
  readonly startedAt: string
  readonly progress: Progress
  readonly #report = Promise.withResolvers<Report>()
  readonly #clock: Clock
  #closeRequest: CloseRequest
  #deadlineMs: number
  /** When this close began to give up obligations that it cannot meet. */
  #forcedMs: number | undefined
  readonly #forced = Promise.withResolvers<void>()
  #recorded: Promise<boolean> = Promise.resolve(true)
  #changed = Promise.withResolvers<void>()

  constructor(clock: Clock, closeRequest: CloseRequest, id: string, progressOf: (operation: CloseOperation) => Progress) {
    this.id = id
    this.#clock = clock
    this.#closeRequest = closeRequest
    this.startedMs = clock.now()
    this.startedAt = clock.wall()
    this.#deadlineMs = this.startedMs + policyFor(closeRequest).deadlineMs
    this.#noteForce()
    this.progress = progressOf(this)
  }

  get report(): Promise<Report> {
    return this.#report.promise
  }

  endsWith(report: Promise<Report>): void {
    this.#report.resolve(report)
  }

  #noteForce(): void {
    if (!this.policy.givesUp) return
    this.#forcedMs ??= this.#clock.now()
    this.#forced.resolve()
  }

  /**
   * Settles when obligations that cannot be met may be given up: at once when the request allows it, or when a request that allows it
   * joins.
   */
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

  /**
   * True for a close that has no deadline, gives up no obligations and is not the exit of this process. Each resource then has the
   * `patienceMs` of its own kind to go.
   */
  get isPatient(): boolean {
    return this.#closeRequest.deadlineMs === undefined && !this.policy.givesUp && this.#closeRequest.trigger !== 'process-exit'
  }

  /** How long obligations may still be tried. A close that gives up what it cannot meet keeps the rest of the time for the kill. */
  obligationsMs(): number {
    const halfMs = (this.#deadlineMs - (this.#forcedMs ?? this.#deadlineMs)) / 2
    return Math.max(0, this.#deadlineMs - Math.min(afterObligationsMs, halfMs) - this.#clock.now())
  }

  /** Remembers the write that stores the current request in the ledger. */
  recordedBy(write: Promise<unknown>): void {
    this.#recorded = write.then(
      () => true,
      () => false,
    )
  }

  /**
   * The request counts as stored when the request of the scope above is stored, because the ledger stores that one for the scopes below,
   * too.
   */
  recordedWith(above: CloseOperation): void {
    this.#recorded = above.isRecorded()
  }

  /** True once the ledger has the request, including every request that joined it. False when the write failed. */
  async isRecorded(): Promise<boolean> {
    for (;;) {
      const recorded = this.#recorded
      const isRecorded = await recorded
      if (recorded === this.#recorded) return isRecorded
    }
  }

  /** Settles when the request becomes stronger. */
  get changed(): Promise<void> {
    return this.#changed.promise
  }

  /** Returns true when the request became stronger. */
  join(closeRequest: CloseRequest): boolean {
    const before = JSON.stringify(this.#closeRequest)
    const wasPatient = this.isPatient
    this.#closeRequest = strengthen(this.#closeRequest, closeRequest)
    if (JSON.stringify(this.#closeRequest) === before) return false
    const nowMs = this.#clock.now()
    // A patient close can outlast its deadline. When a request joins after the deadline, the combined request gets the full time of its
    // policy.
    const isPastDeadline = wasPatient && this.#deadlineMs <= nowMs
    this.#deadlineMs = Math.min(isPastDeadline ? Number.POSITIVE_INFINITY : this.#deadlineMs, nowMs + this.policy.deadlineMs)
    this.#noteForce()
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
    return true
  }
}
