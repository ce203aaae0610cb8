import { nextTurn } from '../core/ports/turn.ts'

/** Runs at most `width` pieces of work at a time, in order of arrival, and yields to the event loop before each. */
export class Limiter {
  readonly #width: number
  #inside = 0
  readonly #waiting: (() => void)[] = []

  constructor(width: number) {
    this.#width = width
  }

  async pass<T>(work: () => Promise<T>): Promise<T> {
    if (this.#inside >= this.#width) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#inside += 1
    try {
      await nextTurn()
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#inside -= 1
    }
  }
}
