import type { Report } from '../model/report.ts'
import type { ScopeKind } from '../model/scope.ts'
import type { AgentEnd } from './agents.ts'
import type { Exit } from './effects.ts'

/** A scope whose every resource was proven gone. */
export interface EndedScope {
  readonly id: string
  readonly kind: ScopeKind
  readonly report: Report
  /** Its records go with it. */
  readonly isForgotten: boolean
  /** Its archived logs go with it, though its records may stay. */
  readonly dropsLogs: boolean
}

/** A scope of an agent in which something is left: stuck, or only held back. */
export interface UncleanScope {
  readonly id: string
  readonly report: Report
  readonly isStuck: boolean
}

/** What the owner of the agents adds to the transaction that ends their scopes, and does when it is through. */
export interface Endings {
  /** After the proof: what those that are forgotten, or whose logs are dropped, had besides their resources goes. May take its time; says of whom what is left. */
  clear(scopes: readonly EndedScope[]): Promise<{ readonly left: ReadonlyMap<string, string>; readonly messagesGone: number }>
  /** Before the books. */
  prepare(scopes: readonly EndedScope[]): Promise<{ readonly ended: readonly AgentEnd[]; readonly messagesGoing: number }>
  /** The books say so: whoever listens may be told. */
  settled(scopes: readonly EndedScope[], ended: readonly AgentEnd[], left: readonly UncleanScope[]): void
  /** An agent of a dead supervisor came to its own end, before anybody closes it. */
  exited(agentId: string, exit: Exit): Promise<void>
  /** Agents whose supervisors have left the books, though they themselves had not ended: nobody else will end them. */
  lost(recordedIncarnations: ReadonlySet<string>): Promise<readonly Omit<AgentEnd, 'report'>[]>
}
