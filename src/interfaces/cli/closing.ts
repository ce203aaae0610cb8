import { EbbError, isEbbError, sentence } from '../../domain/errors.ts'
import type { Report } from '../../domain/report.ts'
import type { Stage } from './stage.ts'

/** The close of the agent that is run here: asked for by signals, or joined when the agent ends by itself. */
export class Closing {
  readonly #stage: Stage
  readonly #id: string
  readonly #graceMs: number
  readonly #say: (text: string) => void
  #report: Report | undefined
  readonly #failed = Promise.withResolvers<void>()
  #isJoined = false
  #asked = 0

  constructor(stage: Stage, id: string, graceMs: number, say: (text: string) => void) {
    this.#stage = stage
    this.#id = id
    this.#graceMs = graceMs
    this.#say = say
  }

  /** The first time politely, then by force. */
  ask(): void {
    this.#asked += 1
    if (this.#asked === 1) this.#say('ebb: stopping the agent; once more forces it.\n')
    this.#close(this.#asked > 1)
  }

  /** It ends by itself: what could not be released is known only to who takes part in its close. */
  join(): void {
    if (!this.#isJoined) this.#close(false)
  }

  #close(force: boolean): void {
    this.#isJoined = true
    this.#stage.stop(this.#id, { force, graceMs: this.#graceMs }).then(
      (report) => {
        this.#report = report
        if (!report.success) this.#failed.resolve()
      },
      (error: unknown) => {
        if (!isEbbError(error, 'agent_not_found')) this.#say(`ebb: the agent could not be stopped: ${sentence(error)}\n`)
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

  /** Throws `not_released` for a close that was not clean, and is not by now. */
  async requireReleased(): Promise<void> {
    const report = await this.#stage.stop(this.#id, { force: false, graceMs: this.#graceMs })
    if (!report.success) throw new EbbError('not_released', `The agent ${this.#id} could not be released.`, { details: report })
  }
}
