import type { Report } from '../domain/report.ts'
import type { ScopeKind, Wish } from '../domain/scope.ts'
import type { AgentEnd } from './agents.ts'

/** A scope whose every resource was proven gone. */
export interface EndedScope {
  readonly id: string
  readonly kind: ScopeKind
  readonly report: Report
  readonly wish: Wish
  /** Its records go with it. */
  readonly isForgotten: boolean
  /** Its supervisor died, and we speak for it. */
  readonly isOrphan: boolean
}

/** A scope of an agent in which something is left: stuck, or only held back. */
export interface UncleanScope {
  readonly id: string
  readonly report: Report
  readonly isStuck: boolean
}

/** What the owner of the agents adds to the transaction that ends their scopes, and does when it is through. */
export interface Endings {
  /** Between the proof and the books. */
  prepare(scopes: readonly EndedScope[]): Promise<{ readonly ended: readonly AgentEnd[]; readonly messagesGoing: number }>
  /** The books say so: whoever listens may be told. */
  settled(scopes: readonly EndedScope[], ended: readonly AgentEnd[], left: readonly UncleanScope[]): void
}
