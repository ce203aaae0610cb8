import { type Timed, within } from '../core/engine/race.ts'
import type { Clock } from '../core/ports/clock.ts'

/** The minimum time that one observation gets, even after the deadline. */
const leastMs = 200

/** The time by which a reset must answer. A caller that joins the reset can move it earlier (G6). */
export class Deadline {
  readonly #clock: Clock
  #untilMs: number
  #advanced = Promise.withResolvers<void>()

  constructor(clock: Clock, untilMs: number) {
    this.#clock = clock
    this.#untilMs = untilMs
  }

  get leftMs(): number {
    return this.#untilMs - this.#clock.now()
  }

  advance(untilMs: number): void {
    this.#untilMs = Math.min(this.#untilMs, untilMs)
    this.#advanced.resolve()
    this.#advanced = Promise.withResolvers()
  }

  async race<T>(work: Promise<T>, reserveMs = 0): Promise<Timed<T>> {
    const done = work.then((value) => ({ value }))
    for (;;) {
      const leftMs = Math.max(leastMs, this.leftMs) - reserveMs
      const winner = await within(this.#clock, leftMs, Promise.race([done, this.#advanced.promise]))
      if (winner.timedOut) return winner
      if (winner.value) return { timedOut: false, value: winner.value.value }
    }
  }
}
