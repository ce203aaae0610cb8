import type { Agent, AgentError, AgentResult, AgentStatus, FinalStatus, KeptConfiguration } from '../model/agent.ts'
import type { Message, MessageBody } from '../model/message.ts'
import type { Report } from '../model/report.ts'
import type { ScopeState } from '../model/scope.ts'
import type { PreparedRow } from './prepared-row.ts'

/** Storage of agents, their messages, and the requests and tasks that own them. */

export interface NewAgent {
  /** The id of the agent, which is also the id of its scope. */
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
  /** Hash of the token with which the agent calls back. */
  readonly tokenHash?: string
  readonly incarnation: string
  readonly createdAt: string
}

/**
 * A change to the row of an agent that has not ended. The row of an ended agent changes only to `stuck`, when the agent is to be deleted
 * and cannot be.
 */
export interface AgentChange {
  readonly status?: AgentStatus
  readonly startedAt?: string
  readonly exit?: { readonly code: number | null; readonly signal: string | null }
  readonly result?: AgentResult
  readonly error?: AgentError
}

/** The columns that the transaction that closes an agent's scope writes into its row. */
export interface AgentEnd {
  readonly agentId: string
  readonly status: FinalStatus
  readonly error?: AgentError
  readonly exit?: { readonly code: number | null; readonly signal: string | null }
  readonly completedAt: string
  /** The report of the agent's first close. A later stop returns it again. */
  readonly report: Report
}

/** The row of an agent, with the fields that clients do not see. */
export interface AgentRecord {
  readonly agent: Agent
  readonly incarnation: string
  readonly result?: AgentResult
  readonly report?: Report
}

/** How far an output stream has been read. */
export interface StreamPosition {
  readonly agentId: string
  readonly stream: string
  readonly offset: number
}

export interface NewMessage extends MessageBody {
  readonly id: string
}

/** The result of one read of the output. It is saved in one transaction with the new position. */
export interface Progress {
  readonly agentId: string
  readonly messages: readonly NewMessage[]
  /**
   * The position moves from `from` to `to`. If the stored position is not `from`, nothing is saved, because another process has read this
   * part already.
   */
  readonly position?: { readonly stream: string; readonly from: number; readonly to: number }
  /** The agent's verdict on its own work, if one of the lines contained it. */
  readonly result?: AgentResult
}

export interface AgentFilter {
  readonly namespace?: string
  readonly statuses?: readonly AgentStatus[]
  readonly requestId?: string
  readonly taskId?: string
  /** The list leaves out agents of the given incarnations, because other processes own them. */
  readonly exceptIncarnations?: ReadonlySet<string>
  readonly limit?: number
  /** The `nextCursor` of an earlier page. */
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
  /** By the wall clock. The request or task is closed at this time, by whichever process owns it then. */
  readonly closesAt?: string
}

export interface Totals {
  readonly agents: number
  readonly messages: number
}

export interface AgentStore {
  /** The row and its first message, the prompt. The ledger writes both with the agent's scope. */
  newAgent(agent: NewAgent, prompt: NewMessage): PreparedRow
  change(agentId: string, change: AgentChange): Promise<void>
  find(agentId: string): Promise<AgentRecord | undefined>
  list(filter: AgentFilter): Promise<AgentPage>
  /** The same page as from `list`, as the text of a JSON array. This is faster for thousands of agents. */
  listJson(filter: AgentFilter): Promise<{ readonly json: string; readonly nextCursor?: string }>
  /** The namespaces of those of the given agents that have a row. */
  namespacesOf(agentIds: readonly string[]): Promise<ReadonlyMap<string, string>>
  /** Deletes rows with their messages and scopes. Returns the ids and counts of what was deleted. */
  remove(agentIds: readonly string[]): Promise<Totals & { readonly ids: ReadonlySet<string> }>
  /**
   * Deletes most messages of an agent that is about to be removed, in small batches, so that the removal does not block other writes for
   * long. Returns their number.
   */
  trim(agentId: string): Promise<number>
  /** Counts rows and messages. Leaves out agents of `exceptIncarnations`. */
  totals(namespace: string | undefined, exceptIncarnations: ReadonlySet<string>): Promise<Totals>

  /**
   * Saves the items in order, in one transaction, and assigns the sequence numbers. Resolves with the saved messages, one list per item.
   */
  save(progress: readonly Progress[]): Promise<readonly (readonly Message[])[]>
  positions(agentId: string): Promise<readonly StreamPosition[]>
  /** Returns at most `limit` messages, and fewer when they are large. An empty page means that there are no more. */
  messages(agentId: string, since: number, limit: number): Promise<readonly Message[]>

  /** The row of a request or task. The ledger writes it with the scope. Refused with `scope_closed` when the name is in use. */
  newOwner(owner: Omit<OwnerRecord, 'state'>): PreparedRow
  findOwner(kind: OwnerKind, namespace: string, id: string): Promise<OwnerRecord | undefined>
  /** Deletes the records of closed requests and tasks: those of one namespace, or all. */
  removeOwners(namespace: string | undefined): Promise<void>
}
