import type { CloseRequest } from '../model/close-request.ts'
import type { Incarnation } from '../model/identity.ts'
import type { Report } from '../model/report.ts'
import type { Intent, Proof, Resource } from '../model/resource.ts'
import type { Scope, ScopeKind } from '../model/scope.ts'
import type { AgentEnd } from './agents.ts'
import type { PreparedRow } from './prepared-row.ts'

export interface IncarnationRecord {
  readonly id: string
  readonly installation: string
  readonly identity: Incarnation
  readonly role: 'server' | 'command'
  /** The URL of a server. */
  readonly address: string | undefined
  /** The incarnation that is recovering this one. */
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

/** The writes at the end of a close, in one transaction. */
export interface Settlement {
  readonly outcomes: readonly Outcome[]
  readonly closedScopeIds: readonly string[]
  /** Scopes whose records are deleted, with everything below them. */
  readonly forgottenScopeIds: readonly string[]
  /** Changes to the rows of agents. Agents of forgotten scopes are deleted with their messages. */
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

/**
 * The failures that a confirmed write survives: the death of this process, or also a power cut. A write that survives a power cut waits for
 * the disk.
 */
export type Survives = 'crash' | 'power-cut'

/** What the ledger must have before a scope can be used. Everything is written in one transaction, or nothing is. */
export interface Opening {
  /** This process, when the ledger may not have it yet. Its host scope is the first of `scopes`. */
  readonly incarnation?: IncarnationRecord
  /**
   * Scopes that the ledger may not have yet, parents first. One that it has already, open and equal, stays as it is, because several
   * launches at once may bring the same scope.
   */
  readonly scopes: readonly NewScope[]
  readonly rows?: readonly PreparedRow[]
}

export interface Committed {
  /** Resolves when the rows of the opening survive a power cut, too. */
  readonly rowsStored: Promise<void>
}

/** The reports of closes that have ended. */
export interface AuditTrail {
  /** The latest reports, newest first. */
  reports(limit: number): Promise<readonly StoredReport[]>
  /** The ids of the reports that `reports` returns. A report never changes, so a caller needs to read each only once. */
  reportIds(limit: number): Promise<readonly string[]>
  findReport(id: string): Promise<Report | undefined>
  /** Stores a report of several closes. The report of one close is stored by `settle`. */
  addReport(report: StoredReport): Promise<void>
}

/**
 * The durable record of all resources. A write whose promise has resolved survives the death of this process. Writes with `power-cut` also
 * survive a power cut. Each call is atomic by itself. A store may group calls into one transaction, and no caller depends on that.
 */
export interface Ledger extends AuditTrail, AsyncDisposable {
  /**
   * Writes the incarnation and its host scope in one transaction, because the scopes below a host are found by its incarnation. Refused
   * with `server_running` when `role` is server and another server is registered; see `unseatServer`.
   */
  register(incarnation: IncarnationRecord, host?: NewScope): Promise<void>
  /** Registers a new server in place of a dead one. False when another process was faster. */
  unseatServer(dead: string, incarnation: IncarnationRecord, host?: NewScope): Promise<boolean>
  incarnations(): Promise<readonly IncarnationRecord[]>
  /** Compare-and-set: of several callers that saw the same `claimedBy`, exactly one gets true. */
  claim(id: string, by: string, seenClaim: string | undefined): Promise<boolean>
  /** Gives a claim back, so that another process may have it at once. */
  unclaim(id: string, by: string): Promise<void>
  /**
   * Removes an incarnation with its closed scopes, except the scopes of agents that still have a row. Returns false, and removes nothing,
   * while a scope or resource of it is open.
   */
  retire(id: string): Promise<boolean>

  /** Opens scopes. Refused with `scope_closed` when a parent is closing or closed (G13). Rows survive a power cut. */
  open(opening: Opening): Promise<void>
  /**
   * Writes the opening and all intents of a plan in one transaction, which also checks that the scope is open (G1, G13). `survives` is about
   * the intents; the rows of the opening always survive a power cut, and `rowsStored` says when.
   */
  intend(scopeId: string, intents: readonly NewIntent[], survives?: Survives, opening?: Opening): Promise<Committed>
  /** Stores a detail that is known only in the middle of a creation. */
  record(resourceId: string, detail: unknown, survives?: Survives): Promise<void>
  hold(held: readonly { readonly resourceId: string; readonly detail?: unknown }[]): Promise<void>
  /** Records as held a resource that the ledger did not know, or had as released. */
  adopt(scopeId: string, intent: NewIntent): Promise<void>

  /**
   * Moves scopes of a dead incarnation, with their resources, to another one, below the given parents. The rows of their agents move, too.
   */
  inherit(scopes: readonly { readonly id: string; readonly parentId: string }[], incarnation: string): Promise<void>

  /**
   * Sets a closed scope of which something is left back to closing, with this request, and moves it to this incarnation. The row of its
   * agent moves, too.
   */
  reopen(scope: NewScope & { readonly parentId: string }, closeRequest: CloseRequest): Promise<void>

  /**
   * Records that ended agents are to be forgotten. Their closed scopes become closing again, below `host`, so that a recovery of `host`
   * finishes the removal. Scopes that are not closed stay as they are.
   */
  condemn(
    agentIds: readonly string[],
    host: { readonly id: string; readonly incarnation: string },
    closeRequest: CloseRequest,
  ): Promise<void>

  /**
   * Marks the scope and everything below it as closing. A second call keeps the stronger request. The write survives a crash, unless
   * `survives` demands more.
   */
  beginClose(scopeId: string, closeRequest: CloseRequest, survives?: Survives): Promise<void>
  settle(settlement: Settlement): Promise<void>

  /** Every scope and resource of an incarnation, or of all. `open` leaves out closed scopes and released resources. */
  contents(incarnation?: string, only?: 'open'): Promise<LedgerContents>
  resources(scopeId: string): Promise<readonly Resource[]>
  /** Counts one more sighting of an unrecorded resource, and returns all that is known about its sightings. */
  sight(kind: string, name: string, bootId: string, nowMs: number): Promise<Sighting>
  /** Deletes the sightings that are not in `kept`. */
  forgetSightings(kept: ReadonlySet<string>): Promise<void>
}
