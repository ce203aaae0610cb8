import { pause } from '../core/engine/race.ts'
import { EbbError, isEbbError, sentence } from '../core/model/errors.ts'
import type { Report } from '../core/model/report.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { AgentBackend } from './agent-backend.ts'

/** Who tells a person of the close. */
export interface Teller {
  /** It was asked for before there was an agent. */
  stoppingSoon(): void
  /** It was asked for, for the first time. */
  stopping(): void
  /** By force now. */
  forcing(): void
  failed(why: string): void
  /** We go before its end is proven. */
  leaving(farewell: string): void
}

/** Between two questions whether the stage is still there, when nobody is left who could ask us again. */
const helloEveryMs = 5_000

/**
 * The close of the agent that is run here: asked for by signals, or joined when the agent ends by itself. Whoever has asked
 * for all there is and asks once more is let go, whatever the stage answers; nothing is said or done after `over`.
 */
export class Closing {
  readonly #backend: AgentBackend
  readonly #graceMs: number
  readonly #teller: Teller
  readonly #clock: Clock
  #id: string | undefined
  #report: Report | undefined
  readonly #failed = Promise.withResolvers<void>()
  readonly #left = Promise.withResolvers<void>()
  readonly #ended = Promise.withResolvers<void>()
  #isOver = false
  #isJoined = false
  #isHungUp = false
  #asked = 0

  constructor(backend: AgentBackend, graceMs: number, teller: Teller, clock: Clock) {
    this.#backend = backend
    this.#graceMs = graceMs
    this.#teller = teller
    this.#clock = clock
  }

  /** There is an agent now. Who has asked before gets what they asked for. */
  begin(id: string): void {
    this.#id = id
    if (this.#asked > 0 && !this.#isOver) this.#climb(id)
  }

  /** The first time politely, then by force; then we leave. Before there is an agent, the second time leaves. */
  ask(): void {
    if (this.#isOver) return
    this.#asked += 1
    if (this.#asked > (this.#id === undefined ? 1 : 2)) this.#leave()
    else if (this.#id === undefined) this.#teller.stoppingSoon()
    else this.#climb(this.#id)
  }

  /** Nobody reads what it says: a wish to stop, but not one more beside somebody's signal. */
  askOnce(): void {
    if (this.#asked === 0) this.ask()
  }

  /** The terminal is gone, and with it whoever could ask again: so we look whether the stage is there. */
  hangUp(): void {
    this.askOnce()
    if (this.#isHungUp) return
    this.#isHungUp = true
    void this.#watchStage()
  }

  async #watchStage(): Promise<void> {
    while (!this.#isOver) {
      if (!(await this.#backend.answers())) return this.#leave()
      await pause(this.#clock, helloEveryMs, this.#ended.promise)
    }
  }

  #leave(): void {
    if (this.#isOver) return
    this.over()
    this.#teller.leaving(this.#backend.farewell(this.#id))
    this.#left.resolve()
  }

  /** Settles when we leave before the end is proven. */
  get left(): Promise<void> {
    return this.#left.promise
  }

  /** There is nothing to be asked for any more. */
  over(): void {
    this.#isOver = true
    this.#ended.resolve()
  }

  /** It ends by itself: what could not be released is known only to who takes part in its close. */
  join(): void {
    if (!this.#isJoined && this.#id !== undefined) this.#close(this.#id, false)
  }

  #climb(id: string): void {
    if (this.#asked === 1) this.#teller.stopping()
    else this.#teller.forcing()
    this.#close(id, this.#asked > 1)
  }

  #close(id: string, force: boolean): void {
    this.#isJoined = true
    this.#backend.stop(id, { force, graceMs: this.#graceMs }).then(
      (report) => {
        this.#report = report
        if (!report.success) this.#failed.resolve()
      },
      (error: unknown) => {
        if (!this.#isOver && !isEbbError(error, 'agent_not_found')) this.#teller.failed(sentence(error))
      },
    )
  }

  /** Settles when a close was not clean. */
  get failed(): Promise<void> {
    return this.#failed.promise
  }

  get hasFailed(): boolean {
    return this.#report?.success === false
  }

  /** What the close of an agent did; of one that has ended, its first one. Undefined when nobody can say. */
  async report(id: string): Promise<Report | undefined> {
    return this.#report ?? (await this.#stop(id).catch(() => undefined))
  }

  /** Throws `not_released` for a close that was not clean, and is not by now. */
  async requireReleased(id: string): Promise<void> {
    const report = await this.#stop(id)
    if (!report.success) throw new EbbError('not_released', `The agent ${id} could not be released.`, { details: report })
  }

  #stop(id: string): Promise<Report> {
    return this.#backend.stop(id, { force: false, graceMs: this.#graceMs })
  }
}
