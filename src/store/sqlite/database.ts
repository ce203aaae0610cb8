import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import type { Clock } from '../../core/ports/clock.ts'
import type { Survives } from '../../core/ports/ledger.ts'
import { explain } from './explain.ts'
import { GroupCommit } from './group-commit.ts'
import { retryWhileBusy } from './retry.ts'
import type { Row } from './rows.ts'
import { WalSync } from './wal-sync.ts'

/** One connection, its prepared statements, and the two ways to use it: grouped writes and patient reads. */
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

  /** What is asked for in one turn of the event loop shares a transaction. */
  write<T>(run: () => T, survives: Survives | (() => Survives) = 'power-cut'): Promise<T> {
    return this.#commits.write(run, typeof survives === 'function' ? survives : () => survives)
  }

  /** A reader of a WAL database meets a lock only while another process rebuilds the index; then it waits its turn. */
  read(sql: string, ...values: SQLInputValue[]): Promise<readonly Row[]> {
    return this.patiently(() => this.all(sql, ...values))
  }

  /** Again while another process holds the lock, as long as the budget lasts. */
  patiently<T>(attempt: () => T): Promise<T> {
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
