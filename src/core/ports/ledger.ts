import type { CloseRequest } from '../model/close-request.ts'
import type { Incarnation } from '../model/identity.ts'
import type { Report } from '../model/report.ts'
import type { Intent, Proof, Resource } from '../model/resource.ts'
import type { Scope, ScopeKind } from '../model/scope.ts'
import type { AgentEnd } from './agents.ts'

export interface IncarnationRecord {
  readonly id: string
  readonly installation: string
  readonly identity: Incarnation
  readonly role: 'server' | 'command'
  /** Where a server answers. */
  readonly address: string | undefined
  /** The incarnation that recovers this one. */
  readonly claimedBy: string | undefined
  readonly registeredAt: string
}

export interface NewScope {
  readonly id: string
  readonly kind: ScopeKind
  readonly parentId: string | undefined
  readonly incarnation: string
}

export interface NewIntent extends Intent {
  readonly name: string
}

export interface Outcome {
  readonly resourceId: string
  readonly state: 'released' | 'stuck' | 'closing'
  readonly attempts: number
  readonly proof?: Proof
  readonly error?: string
  readonly owedSince?: string
}

/** What the end of a close writes, in one transaction. */
export interface Settlement {
  readonly outcomes: readonly Outcome[]
  readonly closedScopeIds: readonly string[]
  /** Scopes whose rows go, with everything below them. */
  readonly forgottenScopeIds: readonly string[]
  /** What becomes of the rows of agents whose scopes these are. Those of forgotten scopes go, with their messages. */
  readonly agents?: { readonly ended: readonly AgentEnd[]; readonly stuckIds: readonly string[] }
  readonly report?: StoredReport
}

export interface StoredReport {
  readonly id: string
  readonly body: Report
}

export interface Sighting {
  readonly kind: string
  readonly name: string
  readonly bootId: string
  readonly firstSeenMs: number
  readonly count: number
}

export interface LedgerContents {
  readonly scopes: readonly Scope[]
  readonly resources: readonly Resource[]
}

/** What a write that was answered outlives: our own death alone, or also that of the machine, for which it waits for the disk. */
export type Survives = 'crash' | 'power-cut'

/** The reports of closes that have ended. */
export interface AuditTrail {
  /** Newest first. */
  reports(limit: number): Promise<readonly StoredReport[]>
  /** The ids of the same reports, for callers that have read some of them before: a report never changes. */
  reportIds(limit: number): Promise<readonly string[]>
  findReport(id: string): Promise<Report | undefined>
  /** Stores a report of several closes. The report of one close is stored by `settle`. */
  addReport(report: StoredReport): Promise<void>
}

/**
 * The durable record of all resources. A promise that resolves is a write that survives our death; that of an intent, or
 * of an agent's end, also survives a power cut where it has to. Calls made in one turn of the event loop may share a
 * transaction; each call by itself is atomic.
 */
export interface Ledger extends AuditTrail, AsyncDisposable {
  /**
   * With its host scope in one transaction: what hangs below a host must be found by its incarnation. Refused with
   * `server_running` when `role` is server and another server is on the books; see `unseatServer`.
   */
  register(incarnation: IncarnationRecord, host?: NewScope): Promise<void>
  /** Gives the new server the place of one that is dead; false when somebody else was quicker. */
  unseatServer(dead: string, incarnation: IncarnationRecord, host?: NewScope): Promise<boolean>
  incarnations(): Promise<readonly IncarnationRecord[]>
  /** Compare and set: true for exactly one of those who saw the same `claimedBy`. */
  claim(id: string, by: string, seenClaim: string | undefined): Promise<boolean>
  /** Gives a claim back, so that somebody who can do more may have it at once. */
  unclaim(id: string, by: string): Promise<void>
  /** Takes an incarnation off the books, with its closed scopes, but for those of agents that are still known; kept while one is open. */
  retire(id: string): Promise<boolean>

  /** Refused with `scope_closed` when the parent is closing or closed (G13). */
  openScope(scope: NewScope): Promise<void>
  /** All intents of a plan in one transaction, with the check that the scope is open (G1, G13). */
  intend(scopeId: string, intents: readonly NewIntent[], survives?: Survives): Promise<void>
  /** A detail that only the world could tell, in the middle of a creation. */
  record(resourceId: string, detail: unknown, survives?: Survives): Promise<void>
  hold(held: readonly { readonly resourceId: string; readonly detail?: unknown }[]): Promise<void>
  /** Something of ours that the ledger did not know, or knew as released, goes back on the books as held. */
  adopt(scopeId: string, intent: NewIntent): Promise<void>

  /** Scopes of a dead incarnation, with what they hold, become another's, below the parents given; agents' rows follow. */
  inherit(scopes: readonly { readonly id: string; readonly parentId: string }[], incarnation: string): Promise<void>

  /** A closed scope of which something is left after all is closing again, with this wish, as this incarnation's; its agent's row follows. */
  reopen(scope: NewScope & { readonly parentId: string }, closeRequest: CloseRequest): Promise<void>

  /**
   * Agents that have ended are to be forgotten: their closed scopes are closing again, below `host`, so that whoever recovers
   * `host` finishes the removal. Scopes that are not closed stay as they are.
   */
  condemn(
    agentIds: readonly string[],
    host: { readonly id: string; readonly incarnation: string },
    closeRequest: CloseRequest,
  ): Promise<void>

  /** Marks the scope and everything below it as closing; a second call keeps the stronger wish. It survives a crash unless more is asked for. */
  beginClose(scopeId: string, closeRequest: CloseRequest, survives?: Survives): Promise<void>
  settle(settlement: Settlement): Promise<void>

  /** Every scope and resource of an incarnation, or of all; `open` leaves out what is over. */
  contents(incarnation?: string, only?: 'open'): Promise<LedgerContents>
  resources(scopeId: string): Promise<readonly Resource[]>
  /** Counts one more sighting of something unrecorded, and says what is known of it. */
  sight(kind: string, name: string, bootId: string, nowMs: number): Promise<Sighting>
  /** Forgets the sightings that are not among `kept`. */
  forgetSightings(kept: ReadonlySet<string>): Promise<void>
}
