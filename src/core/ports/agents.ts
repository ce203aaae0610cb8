import type { Agent, AgentError, AgentResult, AgentStatus, FinalStatus, KeptConfiguration } from '../model/agent.ts'
import type { Message, MessageBody } from '../model/message.ts'
import type { Report } from '../model/report.ts'
import type { ScopeState } from '../model/scope.ts'

/** The rows of agents, their messages, and the requests and tasks that own them. */

export interface NewAgent {
  /** Also the id of its scope. */
  readonly id: string
  readonly name?: string
  readonly type: string
  readonly placement: string
  readonly namespace: string
  readonly requestId?: string
  readonly taskId?: string
  readonly parentAgentId?: string
  readonly prompt: string
  readonly configuration: KeptConfiguration
  /** Of the token by which it is known when it calls back. */
  readonly tokenHash?: string
  readonly incarnation: string
  readonly createdAt: string
}

/** A change to a living agent's row. One that has ended takes none but `stuck`: it should be deleted, and cannot be. */
export interface AgentChange {
  readonly status?: AgentStatus
  readonly startedAt?: string
  readonly exit?: { readonly code: number | null; readonly signal: string | null }
  readonly result?: AgentResult
  readonly error?: AgentError
}

/** What the transaction that closes an agent's scope writes into its row. */
export interface AgentEnd {
  readonly agentId: string
  readonly status: FinalStatus
  readonly error?: AgentError
  readonly exit?: { readonly code: number | null; readonly signal: string | null }
  readonly completedAt: string
  /** Of its first close, for those who ask to stop it again. */
  readonly report: Report
}

/** A row with what clients do not see. */
export interface AgentRecord {
  readonly agent: Agent
  readonly incarnation: string
  readonly result?: AgentResult
  readonly report?: Report
}

/** Where the reading of one output stream stands. */
export interface StreamPosition {
  readonly agentId: string
  readonly stream: string
  readonly offset: number
}

export interface NewMessage extends MessageBody {
  readonly id: string
}

/** Everything one turn of reading brought, saved in one transaction with the new position. */
export interface Progress {
  readonly agentId: string
  readonly messages: readonly NewMessage[]
  /** Moves from the one to the other offset, or nothing is saved: somebody else has read this already. */
  readonly position?: { readonly stream: string; readonly from: number; readonly to: number }
  /** The agent's verdict on its own work, if it was among the lines. */
  readonly result?: AgentResult
}

export interface AgentFilter {
  readonly namespace?: string
  readonly statuses?: readonly AgentStatus[]
  readonly requestId?: string
  readonly taskId?: string
  /** Rows of these are somebody else's. */
  readonly exceptIncarnations?: ReadonlySet<string>
  readonly limit?: number
  /** As it was given in an earlier answer. */
  readonly cursor?: string
}

export interface AgentPage {
  readonly agents: readonly Agent[]
  readonly nextCursor?: string
}

export type OwnerKind = 'request' | 'task'

export interface OwnerRecord {
  readonly kind: OwnerKind
  readonly namespace: string
  readonly id: string
  readonly scopeId: string
  readonly state: ScopeState
  readonly createdAt: string
  /** By the wall clock: then it is closed, whoever has it. */
  readonly closesAt?: string
}

export interface Totals {
  readonly agents: number
  readonly messages: number
}

export interface AgentStore {
  /** The row and its first message, the prompt, in one transaction. */
  create(agent: NewAgent, prompt: NewMessage): Promise<void>
  change(agentId: string, change: AgentChange): Promise<void>
  find(agentId: string): Promise<AgentRecord | undefined>
  list(filter: AgentFilter): Promise<AgentPage>
  /** The same page as the text of a JSON array: for listings of thousands. */
  listJson(filter: AgentFilter): Promise<{ readonly json: string; readonly nextCursor?: string }>
  /** The namespaces of those among these that have a row. */
  namespacesOf(agentIds: readonly string[]): Promise<ReadonlyMap<string, string>>
  /** Takes rows off the books, messages by cascade, with the scopes that carry their ids; says what was there and went. */
  remove(agentIds: readonly string[]): Promise<Totals & { readonly ids: ReadonlySet<string> }>
  /** Deletes most messages of an agent that is about to go, a few at a time, so that its removal does not stop the world; says how many. */
  trim(agentId: string): Promise<number>
  /** Rows that are not `exceptIncarnations`'. */
  totals(namespace: string | undefined, exceptIncarnations: ReadonlySet<string>): Promise<Totals>

  /** In one transaction, in order; numbers are given here. Resolves with what was saved, one list per item. */
  save(progress: readonly Progress[]): Promise<readonly (readonly Message[])[]>
  positions(agentId: string): Promise<readonly StreamPosition[]>
  /** At most `limit`, and fewer where they are large; none only when there are no more. */
  messages(agentId: string, since: number, limit: number): Promise<readonly Message[]>

  openOwner(owner: Omit<OwnerRecord, 'state'>): Promise<void>
  findOwner(kind: OwnerKind, namespace: string, id: string): Promise<OwnerRecord | undefined>
  /** Forgets the names of requests and tasks that are closed, and the tasks themselves. */
  removeOwners(namespace: string | undefined): Promise<void>
}
