import type { AgentStore } from '../../../src/core/ports/agents.ts'
import type { Ledger } from '../../../src/core/ports/ledger.ts'
import type { TaskStore } from '../../../src/core/ports/tasks.ts'

/** The ledger of the running test. */
export interface Store {
  readonly ledger: Ledger
  reopen(): Promise<Ledger>
}

export interface Connection {
  readonly ledger: Ledger
  readonly agents: AgentStore
  readonly tasks: TaskStore
}

export interface OpenedStore extends Connection {
  /** Opens another connection to the same store, as another process would. */
  reopen(): Promise<Connection>
  /** Closes all connections and removes the store. */
  dispose(): Promise<void>
}

/** The store of the running test. */
export type AgentsUnderTest = Connection & Pick<OpenedStore, 'reopen'>
