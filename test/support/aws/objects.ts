import type { Asked, Reply } from './operation.ts'

/**
 * Makes S3's conditional writes atomic on top of moto. Calls for one object run one after the other; moto's threads may write between the
 * check of a condition and the write.
 */
export class Objects {
  /** The last call for each object, by path. */
  readonly #last = new Map<string, Promise<unknown>>()

  stand(asked: Asked, toMoto: (asked: Asked) => Promise<Reply>): Promise<Reply> {
    const { pathname } = asked.url
    const before = this.#last.get(pathname) ?? Promise.resolve()
    const reply = before.then(() => toMoto(asked))
    // A failed call does not stop the next call for the same object. `reply` reports the error to the caller.
    const over = reply
      .catch(() => {})
      .then(() => {
        if (this.#last.get(pathname) === over) this.#last.delete(pathname)
      })
    this.#last.set(pathname, over)
    return reply
  }
}
