import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import type { Clock } from '../../core/ports/clock.ts'
import type { Survives } from '../../core/ports/ledger.ts'
import { explain } from './explain.ts'
import { GroupCommit } from './group-commit.ts'
import { retryWhileBusy } from './retry.ts'
import type { Row } from './rows.ts'
import { WalSync } from './wal-sync.ts'

interface WrittenAhead<T> {
  readonly committed: Promise<T>
  /** With `reachesDisk`, settles when the committed write is on the disk. When the write fails, this promise never settles. */
  readonly onDisk: Promise<void>
}

/** One database connection with its prepared statements, grouped writes, and reads that retry while the database is locked. */
export class Database {
  readonly connection: DatabaseSync
  readonly clock: Clock
  readonly #busyBudgetMs: number
  readonly disk: WalSync
  readonly #commits: GroupCommit
  readonly #statements = new Map<string, StatementSync>()

  constructor(connection: DatabaseSync, file: string, clock: Clock, busyBudgetMs: number) {
    this.connection = connection
    this.clock = clock
    this.#busyBudgetMs = busyBudgetMs
    this.disk = new WalSync(file)
    this.#commits = new GroupCommit(connection, clock, busyBudgetMs, this.disk)
  }

  /** Writes that are requested in one turn of the event loop share a transaction. */
  write<T>(run: () => T, survives: Survives | (() => Survives) = 'power-cut'): Promise<T> {
    return this.#commits.write(run, typeof survives === 'function' ? survives : () => survives)
  }

  /**
   * Does the same as `write`. With `reachesDisk` it also returns a second promise, so that the caller continues after the commit and waits
   * for the disk later.
   */
  writeAhead<T>(run: () => T, when: { readonly survives: Survives; readonly reachesDisk: boolean }): WrittenAhead<T> {
    const disk = when.reachesDisk ? Promise.withResolvers<void>() : undefined
    // A caller whose commit failed never awaits the promise for the disk, so the error of that promise is ignored.
    disk?.promise.catch(() => {})
    const committed = this.#commits.write(run, () => when.survives, disk)
    return { committed, onDisk: disk?.promise ?? Promise.resolve() }
  }

  /** Reading a WAL database fails with a lock only while another process rebuilds the index. The read is then retried. */
  read(sql: string, ...values: SQLInputValue[]): Promise<readonly Row[]> {
    return this.retrying(() => this.all(sql, ...values))
  }

  /** Retries while another process holds the lock, within the time budget. */
  retrying<T>(attempt: () => T): Promise<T> {
    return retryWhileBusy(this.clock, this.#busyBudgetMs, attempt).catch((error: unknown) => {
      throw explain(error)
    })
  }

  run(sql: string, ...values: SQLInputValue[]): { changes: number | bigint } {
    return this.prepare(sql).run(...values)
  }

  all(sql: string, ...values: SQLInputValue[]): readonly Row[] {
    return this.prepare(sql).all(...values)
  }

  prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql)
    if (!statement) {
      statement = this.connection.prepare(sql)
      this.#statements.set(sql, statement)
    }
    return statement
  }

  async close(): Promise<void> {
    await this.#commits.idle()
    this.disk.close()
    if (this.connection.isOpen) this.connection.close()
  }
}

export function toJson(value: unknown): string | null {
  return value === undefined ? null : JSON.stringify(value)
}
