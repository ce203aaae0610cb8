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
  /** One more connection to the same store, as another process would open it. */
  reopen(): Promise<Connection>
  /** Closes all of them and removes the store. */
  dispose(): Promise<void>
}

/** The store of the running test. */
export type AgentsUnderTest = Connection & Pick<OpenedStore, 'reopen'>
