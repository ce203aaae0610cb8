import type { AgentStore } from '../../core/ports/agents.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Ledger } from '../../core/ports/ledger.ts'
import type { TaskStore } from '../../core/ports/tasks.ts'
import { SqliteAgents } from './agents.ts'
import { Database } from './database.ts'
import { SqliteLedger } from './ledger.ts'
import { openDatabase } from './open.ts'
import { SqliteTasks } from './tasks.ts'

/** How long a write waits for another process's transaction: those are a few fsyncs long, so this is a locked file. */
const defaultBusyBudgetMs = 5_000

export interface SqliteOptions {
  readonly file: string
  readonly clock: Clock
  readonly busyBudgetMs?: number
}

export interface Store {
  /** Its disposal closes the database for all of them. */
  readonly ledger: Ledger
  readonly agents: AgentStore
  readonly tasks: TaskStore
  /** For those who have threads for it: nobody's event loop waits for the disk any more. */
  syncBeside(): void
}

/** Ledger and agents in one SQLite file, shared by every supervisor of a home. */
export async function openSqliteStore({ file, clock, busyBudgetMs = defaultBusyBudgetMs }: SqliteOptions): Promise<Store> {
  const database = new Database(await openDatabase(file, clock, busyBudgetMs), file, clock, busyBudgetMs)
  const agents = new SqliteAgents(database, file, busyBudgetMs)
  const ledger = new SqliteLedger(database, () => agents.close())
  return { ledger, agents, tasks: new SqliteTasks(database), syncBeside: () => database.disk.goBeside() }
}

export async function openSqliteLedger(options: SqliteOptions): Promise<Ledger> {
  return (await openSqliteStore(options)).ledger
}
