import type { Asked, Reply } from './operation.ts'

/** Objects as S3 has them, on top of moto's: between the look at a condition and the write nobody else comes, where moto's threads may. */
export class Objects {
  /** What was asked last of each, by its path. */
  readonly #last = new Map<string, Promise<unknown>>()

  stand(asked: Asked, toMoto: (asked: Asked) => Promise<Reply>): Promise<Reply> {
    const { pathname } = asked.url
    const before = this.#last.get(pathname) ?? Promise.resolve()
    const reply = before.then(() => toMoto(asked))
    // One that fails is no reason for the next to wait.
    const over = reply
      .catch(() => {})
      .then(() => {
        if (this.#last.get(pathname) === over) this.#last.delete(pathname)
      })
    this.#last.set(pathname, over)
    return reply
  }
}
