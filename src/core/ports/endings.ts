import type { Report } from '../model/report.ts'
import type { ScopeKind } from '../model/scope.ts'
import type { AgentEnd } from './agents.ts'
import type { Exit } from './effects.ts'

/** A scope all of whose resources were proven gone. */
export interface EndedScope {
  readonly id: string
  readonly kind: ScopeKind
  readonly report: Report
  /** True when the records of the scope are deleted, too. */
  readonly isForgotten: boolean
  /** True when archived logs are deleted, even when the records stay. */
  readonly dropsLogs: boolean
}

/** The scope of an agent of which something is left: stuck, or only held back. */
export interface UncleanScope {
  readonly id: string
  readonly report: Report
  readonly isStuck: boolean
}

/** What the code that owns the agents does at the end of a close: before, in and after the transaction that closes their scopes. */
export interface Endings {
  /**
   * Called after all resources are proven gone. Removes the archives of scopes whose logs are dropped, and most messages of forgotten
   * scopes. This may take long. `left` says what could not be removed, by scope id.
   */
  clear(scopes: readonly EndedScope[]): Promise<{ readonly left: ReadonlyMap<string, string>; readonly messagesGone: number }>
  /** Called before the transaction. Returns what it writes into the rows of agents. */
  prepare(scopes: readonly EndedScope[]): Promise<{ readonly ended: readonly AgentEnd[]; readonly messagesGoing: number }>
  /** Called after the transaction. From now on subscribers may be notified. */
  settled(scopes: readonly EndedScope[], ended: readonly AgentEnd[], left: readonly UncleanScope[]): void
  /** Called during a recovery, before the close, when an agent has ended by itself since its supervisor died. */
  exited(agentId: string, exit: Exit): Promise<void>
  /**
   * Returns the ends of agents whose supervisor is not in the ledger any more, although the agents have not ended. No close will end them.
   */
  lost(recordedIncarnations: ReadonlySet<string>): Promise<readonly Omit<AgentEnd, 'report'>[]>
}
