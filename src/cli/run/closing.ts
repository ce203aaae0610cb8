import { pause } from '../../core/engine/race.ts'
import { EbbError, isEbbError, sentence } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { AgentBackend } from './backend.ts'

/** Shows the progress of the close to the user. */
export interface CloseListener {
  /** Called when the stop is requested before the agent has started. */
  stoppingSoon(): void
  /** Called when the stop is requested for the first time. */
  stopping(): void
  /** Called when the stop is forced. */
  forcing(): void
  failed(reason: string): void
  /** Called when the command exits before the end of the agent is proven. */
  leaving(farewell: string): void
}

/** The interval of checks whether the agent backend still answers, after the terminal was closed. */
const checkEveryMs = 5_000

/**
 * The close of the agent of `ebb run`: requested by signals, or joined when the agent ends by itself. The first request is
 * polite, the second forces, and the third exits, even if the agent backend does not answer. After `finish` nothing is shown
 * or done.
 */
export class Closing {
  readonly #backend: AgentBackend
  readonly #graceMs: number
  readonly #listener: CloseListener
  readonly #clock: Clock
  #id: string | undefined
  #report: Report | undefined
  readonly #failed = Promise.withResolvers<void>()
  readonly #exitedEarly = Promise.withResolvers<void>()
  readonly #ended = Promise.withResolvers<void>()
  #isFinished = false
  #isJoined = false
  #isHungUp = false
  #requests = 0

  constructor(backend: AgentBackend, graceMs: number, listener: CloseListener, clock: Clock) {
    this.#backend = backend
    this.#graceMs = graceMs
    this.#listener = listener
    this.#clock = clock
  }

  /** Call it when the agent was launched. A stop that was requested earlier starts now. */
  begin(id: string): void {
    this.#id = id
    if (this.#requests > 0 && !this.#isFinished) this.#escalate(id)
  }

  /** Requests a stop: polite, then by force, then exit. Before the agent has started, the second request exits. */
  request(): void {
    if (this.#isFinished) return
    this.#requests += 1
    if (this.#requests > (this.#id === undefined ? 1 : 2)) this.#leave()
    else if (this.#id === undefined) this.#listener.stoppingSoon()
    else this.#escalate(this.#id)
  }

  /** Requests a stop because the output has no reader any more, unless a signal has requested one already. */
  requestOnce(): void {
    if (this.#requests === 0) this.request()
  }

  /** Requests a stop because the terminal is gone. No key can force it any more, so the agent backend is checked regularly. */
  hangUp(): void {
    this.requestOnce()
    if (this.#isHungUp) return
    this.#isHungUp = true
    void this.#watchBackend()
  }

  async #watchBackend(): Promise<void> {
    while (!this.#isFinished) {
      if (!(await this.#backend.answers())) return this.#leave()
      await pause(this.#clock, checkEveryMs, this.#ended.promise)
    }
  }

  #leave(): void {
    if (this.#isFinished) return
    this.finish()
    this.#listener.leaving(this.#backend.farewell(this.#id))
    this.#exitedEarly.resolve()
  }

  /** Settles when the command exits before the end of the agent is proven. */
  get exitedEarly(): Promise<void> {
    return this.#exitedEarly.promise
  }

  /** Ignores all further requests and results. */
  finish(): void {
    this.#isFinished = true
    this.#ended.resolve()
  }

  /** Joins the close of an agent that ends by itself. Only the report of that close says what could not be released. */
  join(): void {
    if (!this.#isJoined && this.#id !== undefined) this.#close(this.#id, false)
  }

  #escalate(id: string): void {
    if (this.#requests === 1) this.#listener.stopping()
    else this.#listener.forcing()
    this.#close(id, this.#requests > 1)
  }

  #close(id: string, force: boolean): void {
    this.#isJoined = true
    this.#backend.stop(id, { force, graceMs: this.#graceMs }).then(
      (report) => {
        this.#report = report
        if (!report.success) this.#failed.resolve()
      },
      (error: unknown) => {
        if (!this.#isFinished && !isEbbError(error, 'agent_not_found')) this.#listener.failed(sentence(error))
      },
    )
  }

  /** Settles when a close has failed. */
  get failed(): Promise<void> {
    return this.#failed.promise
  }

  get hasFailed(): boolean {
    return this.#report?.success === false
  }

  /** The report of the close; for an agent that has ended, that of its first close. Undefined if it cannot be read. */
  async report(id: string): Promise<Report | undefined> {
    // The report is only shown, so a failure to read it is no failure of the run.
    return this.#report ?? (await this.#stop(id).catch(() => undefined))
  }

  /** Repeats the stop, and throws `not_released` if the agent still cannot be released. */
  async requireReleased(id: string): Promise<void> {
    const report = await this.#stop(id)
    if (!report.success) throw new EbbError('not_released', `The agent ${id} could not be released.`, { details: report })
  }

  #stop(id: string): Promise<Report> {
    return this.#backend.stop(id, { force: false, graceMs: this.#graceMs })
  }
}
