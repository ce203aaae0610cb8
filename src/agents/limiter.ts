import { nextTurn } from '../core/ports/turn.ts'

/** Lets so many in at a time, in the order in which they came; the event loop gets its turn between two. */
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
