import type { DatabaseSync } from 'node:sqlite'
import type { Clock } from '../../ports/clock.ts'
import { explain, isBusy } from './explain.ts'
import { retryWhileBusy } from './retry.ts'

interface Write {
  readonly run: () => unknown
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
}

/**
 * Writes that are asked for in one turn of the event loop share one transaction, and so one fsync. Each has a
 * savepoint of its own: one that is refused takes nothing of the others with it.
 */
export class GroupCommit {
  readonly #db: DatabaseSync
  readonly #clock: Clock
  readonly #busyBudgetMs: number
  #queue: Write[] = []
  #flushing: Promise<void> | undefined

  constructor(db: DatabaseSync, clock: Clock, busyBudgetMs: number) {
    this.#db = db
    this.#clock = clock
    this.#busyBudgetMs = busyBudgetMs
  }

  write<T>(run: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ run, resolve: resolve as (value: unknown) => void, reject })
      this.#flushing ??= this.#flush()
    })
  }

  async idle(): Promise<void> {
    while (this.#flushing) await this.#flushing
  }

  async #flush(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#queue.length > 0) {
      const batch = this.#queue
      this.#queue = []
      try {
        const settle = await retryWhileBusy(this.#clock, this.#busyBudgetMs, () => this.#commit(batch))
        for (const answer of settle) answer()
      } catch (error) {
        for (const write of batch) write.reject(explain(error))
      }
    }
    this.#flushing = undefined
  }

  /** All or nothing on disk; who asked is told only after the commit. */
  #commit(batch: readonly Write[]): (() => void)[] {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      const answers = batch.map((write) => this.#one(write))
      this.#db.exec('COMMIT')
      return answers
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
  }

  #one(write: Write): () => void {
    this.#db.exec('SAVEPOINT one')
    try {
      const value = write.run()
      this.#db.exec('RELEASE one')
      return () => write.resolve(value)
    } catch (error) {
      // A disk that is full or broken may have ended the whole transaction; a lock is for the retry.
      if (!this.#db.isTransaction || isBusy(error)) throw error
      this.#db.exec('ROLLBACK TO one; RELEASE one')
      return () => write.reject(explain(error))
    }
  }
}
