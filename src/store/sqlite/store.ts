import type { AgentStore } from '../../core/ports/agents.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Ledger } from '../../core/ports/ledger.ts'
import type { TaskStore } from '../../core/ports/tasks.ts'
import { SqliteAgents } from './agents.ts'
import { Database } from './database.ts'
import { SqliteLedger } from './ledger.ts'
import { openDatabase } from './open.ts'
import { SqliteTasks } from './tasks.ts'

/**
 * The longest wait of a write for another process's transaction. A normal transaction takes a few fsyncs, so after this time the file
 * counts as locked.
 */
const defaultBusyBudgetMs = 5_000

export interface SqliteOptions {
  readonly file: string
  readonly clock: Clock
  readonly busyBudgetMs?: number
}

export interface Store {
  /** Disposing the ledger closes the database for the ledger, the agents and the tasks. */
  readonly ledger: Ledger
  readonly agents: AgentStore
  readonly tasks: TaskStore
  /** From now on syncs run in Node's thread pool, so that the event loop does not wait for the disk. */
  syncBeside(): void
}

/** Opens the ledger, the agents and the tasks in one SQLite file, which all supervisors of a home share. */
export async function openSqliteStore({ file, clock, busyBudgetMs = defaultBusyBudgetMs }: SqliteOptions): Promise<Store> {
  const database = new Database(await openDatabase(file, clock, busyBudgetMs), file, clock, busyBudgetMs)
  const agents = new SqliteAgents(database, file, busyBudgetMs)
  const ledger = new SqliteLedger(database, () => agents.close())
  return { ledger, agents, tasks: new SqliteTasks(database), syncBeside: () => database.disk.useThreads() }
}

export async function openSqliteLedger(options: SqliteOptions): Promise<Ledger> {
  return (await openSqliteStore(options)).ledger
}
