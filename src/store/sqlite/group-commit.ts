import type { DatabaseSync } from 'node:sqlite'
import type { Clock } from '../../core/ports/clock.ts'
import type { Survives } from '../../core/ports/ledger.ts'
import { explain, isBusy, isReadOnly } from './explain.ts'
import { retryWhileBusy } from './retry.ts'
import type { WalSync } from './wal-sync.ts'

interface Write {
  /** Known when it has run. */
  readonly survives: () => Survives
  readonly run: () => unknown
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
}

interface Answer {
  readonly write: Write
  readonly tell: () => void
}

/**
 * Writes that are asked for in one turn of the event loop share one transaction, and those of them that must survive a
 * power cut share one fsync. Each has a savepoint of its own: one that is refused takes nothing of the others with it.
 */
export class GroupCommit {
  readonly #db: DatabaseSync
  readonly #clock: Clock
  readonly #busyBudgetMs: number
  readonly #disk: WalSync
  #queue: Write[] = []
  #flushing: Promise<void> | undefined

  constructor(db: DatabaseSync, clock: Clock, busyBudgetMs: number, disk: WalSync) {
    this.#db = db
    this.#clock = clock
    this.#busyBudgetMs = busyBudgetMs
    this.#disk = disk
  }

  write<T>(run: () => T, survives: () => Survives): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ survives, run, resolve: resolve as (value: unknown) => void, reject })
      this.#flushing ??= this.#flush()
    })
  }

  async idle(): Promise<void> {
    while (this.#flushing) await this.#flushing
    await this.#disk.idle()
  }

  async #flush(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#queue.length > 0) {
      const batch = this.#queue
      this.#queue = []
      try {
        this.#settle(await retryWhileBusy(this.#clock, this.#busyBudgetMs, () => this.#commit(batch)))
      } catch (error) {
        for (const write of batch) write.reject(explain(error))
      }
    }
    this.#flushing = undefined
  }

  /** Who must survive a power cut waits for the disk; the next commits do not. */
  #settle(answers: readonly Answer[]): void {
    const lasting: Answer[] = []
    for (const answer of answers) {
      if (answer.write.survives() === 'power-cut') lasting.push(answer)
      else answer.tell()
    }
    if (lasting.length === 0) return
    this.#disk.through().then(
      () => lasting.forEach(({ tell }) => void tell()),
      (error: unknown) => lasting.forEach(({ write }) => void write.reject(explain(error))),
    )
  }

  /** All or nothing; who asked is told only after the commit. */
  #commit(batch: readonly Write[]): readonly Answer[] {
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

  #one(write: Write): Answer {
    this.#db.exec('SAVEPOINT one')
    try {
      const value = write.run()
      this.#db.exec('RELEASE one')
      return { write, tell: () => write.resolve(value) }
    } catch (error) {
      // A disk that is full or broken may have ended the whole transaction; a lock is for the retry. Where nothing can be written
      // all are told the same: those that come after would only miss what was not.
      if (!this.#db.isTransaction || isBusy(error) || isReadOnly(error)) throw error
      this.#db.exec('ROLLBACK TO one; RELEASE one')
      return { write, tell: () => write.reject(explain(error)) }
    }
  }
}
