import type { DatabaseSync } from 'node:sqlite'
import type { Clock } from '../../core/ports/clock.ts'
import type { Survives } from '../../core/ports/ledger.ts'
import { explain, isBusy, isReadOnly } from './explain.ts'
import { retryWhileBusy } from './retry.ts'
import type { WalSync } from './wal-sync.ts'

interface Write {
  /** What the write must survive. Called after `run`, which may decide it. */
  readonly survives: () => Survives
  readonly run: () => unknown
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
  /** A promise that the sync after the commit settles, for a writer that continues before the sync. */
  readonly disk: PromiseWithResolvers<void> | undefined
}

interface Answer {
  readonly write: Write
  readonly isWritten: boolean
  readonly settle: () => void
}

/** An answer to a writer that waits for a sync to the disk. */
interface Lasting {
  readonly settle: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Groups the writes of one turn of the event loop into one transaction, and those that must survive a power cut into one fsync. Each
 * write has its own savepoint, so one that fails does not affect the others. Grouping only saves time: changes that belong together are
 * one write.
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

  write<T>(run: () => T, survives: () => Survives, disk?: PromiseWithResolvers<void>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ survives, run, resolve: resolve as (value: unknown) => void, reject, disk })
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

  /** Answers the writers. Writes that must survive a power cut are answered after the sync, without delaying the next commits. */
  #settle(answers: readonly Answer[]): void {
    const lasting: Lasting[] = []
    for (const { write, isWritten, settle } of answers) {
      if (write.survives() === 'power-cut') lasting.push({ settle, reject: write.reject })
      else settle()
      if (write.disk && isWritten) lasting.push({ settle: write.disk.resolve, reject: write.disk.reject })
    }
    if (lasting.length === 0) return
    this.#disk.sync().then(
      () => lasting.forEach(({ settle }) => void settle()),
      (error: unknown) => lasting.forEach(({ reject }) => void reject(explain(error))),
    )
  }

  /** Runs the batch in one transaction. The writers are answered only after the commit. */
  #commit(batch: readonly Write[]): readonly Answer[] {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      const answers = batch.map((write) => this.#runWrite(write))
      this.#db.exec('COMMIT')
      return answers
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
  }

  #runWrite(write: Write): Answer {
    this.#db.exec('SAVEPOINT one')
    try {
      const value = write.run()
      this.#db.exec('RELEASE one')
      return { write, isWritten: true, settle: () => write.resolve(value) }
    } catch (error) {
      // Three kinds of error fail the whole batch. A full or broken disk may have ended the transaction. When the database is locked, the
      // caller retries the batch. When it is read-only, later writes of the batch may depend on the refused one.
      if (!this.#db.isTransaction || isBusy(error) || isReadOnly(error)) throw error
      this.#db.exec('ROLLBACK TO one; RELEASE one')
      return { write, isWritten: false, settle: () => write.reject(explain(error)) }
    }
  }
}
