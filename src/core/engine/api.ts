import type { CloseRequest } from '../model/close-request.ts'
import type { Report } from '../model/report.ts'
import type { Intent, Presence, Resource, ResourceState } from '../model/resource.ts'
import type { Scope, ScopeKind, ScopeState } from '../model/scope.ts'
import type { Totals } from '../ports/agents.ts'
import type { Handles } from '../ports/handles.ts'
import type { KindTraits, Planned } from '../ports/kind.ts'
import type { LedgerContents, NewScope } from '../ports/ledger.ts'
import type { PreparedRow } from '../ports/prepared-row.ts'
import type { TreeMember } from '../ports/process.ts'
import type { Progress, Track, Undertaking } from './progress.ts'

/**
 * The public API of the engine. The rest of the program uses the engine through this file alone: it opens scopes, launches into them, and
 * closes them. `createEngine` in `engine.ts` makes an engine.
 */
export interface Engine {
  /** The scope above all others of this process. */
  readonly hostScopeId: string

  /** Starts the sentinel, then records this process and its host scope in the ledger. Refused when another server uses the home. */
  begin(role?: Role): Promise<void>
  /** Dismisses the sentinel of a process whose `begin` failed. Such a process has nothing to watch and nothing to recover. */
  abandon(): void
  /** Opens a scope in memory. The ledger gets it with the first launch into it or below it, or by `record`. */
  openScope(scope: ScopeOptions): ScopeView
  /**
   * Creates what the plan lists, or nothing: a launch that fails closes its scope with `launch-rollback`. Returns the scope's handles. One
   * transaction, with at most one sync to the disk, writes the intents, the rows, and every scope on the path that the ledger does not have
   * yet, however long ago that scope was opened.
   */
  launch(scope: ScopeView, plan: readonly Planned[], rows?: readonly PreparedRow[]): Promise<Handles>
  /** Writes a scope into the ledger without a launch, with rows and with the scopes above it, in one transaction. */
  record(scope: ScopeView, rows?: readonly PreparedRow[]): Promise<void>

  /** Closes a scope. Nothing else ends a resource. Closing a scope that is closing joins the running close (G6). */
  close(scopeId: string, request: CloseRequest, options?: CloseOptions): Promise<Report>
  /** Runs several closes as one, such as a reset: they are watched together, and reported under one id. */
  combine(about: CombinedClose, work: (whole: Progress) => Promise<Report>): Promise<Combined>
  /** Closes everything, retires this process from the ledger, and dismisses the sentinel. */
  shutDown(request?: CloseRequest): Promise<Report>
  /** Closes everything but agents that are kept; the next server adopts those. */
  leave(request: CloseRequest): Promise<Report>

  /**
   * Finishes what dead supervisors of this installation left. Can be called at any time. Calls with the same `releasesClaims` that overlap
   * share one recovery; others run one after the other.
   */
  recover(options?: RecoverOptions): Promise<Recovery>
  /** Takes over agents of a dead supervisor; see `Adoption`. */
  adopt(adoption: Adoption): Promise<Adopted>
  /**
   * Runs one pass of the reaper, which finds what nothing closed, and closes it. Calls with the same request that overlap share one pass.
   */
  reap(request: ReapRequest): Promise<ReaperPass>
  /** Reaps at the configured interval until the signal aborts. */
  startReaping(signal: AbortSignal): void

  /** A scope of this process. Undefined when the scope belongs to another process or is closed. */
  inspect(scopeId: string): ScopeView | undefined
  /** The scope and all scopes below it, parents first. */
  inspectTree(scopeId: string): readonly ScopeView[]
  /** All scopes of this process. */
  scopes(): Iterable<ScopeView>
  owns(scopeId: string): boolean
  /** The close that runs on a scope: its id in the audit trail, and whether it has a report of its own there. */
  closeOf(scopeId: string): { readonly id: string; readonly isReported: boolean } | undefined
  namespaceOf(scopeId: string): string | undefined
  /** The ids of the scopes of agents that outlive this process. */
  keptAgents(): readonly string[]
  /** The ledger's resources of a scope, with the states that a running close has reached. */
  resources(scopeId: string): Promise<readonly Resource[]>
  /** All resources of this home that are not released. */
  openResources(): Promise<readonly Resource[]>
  /**
   * Observes one resource now. The result is `unknown` without an answer within the time limit (G4), and undefined for a kind that this
   * process does not know.
   */
  observe(resource: Intent, timeoutMs: number): Promise<Presence | undefined>
  /** Counts the resources, processes and agents that exist, by observing the system and not only the ledger. */
  look(sources: StatusSources): Promise<SystemObservation>
  /** Other supervisors of this home that are not proven dead. */
  otherIncarnations(): Promise<ReadonlySet<string>>
  /** The traits of a kind. Undefined when this process does not know the kind. */
  traitsOf(kind: string): KindTraits | undefined

  /** Sets a closed scope of which something is left back to the state `closing`. The next close continues with what is left (G11). */
  reopen(id: string, parentId: string, request: CloseRequest): void
  /**
   * Records that agents are to be forgotten, before their archives and rows are removed. A recovery finishes an interrupted removal (G9).
   */
  condemn(agentIds: readonly string[]): Promise<void>

  on<K extends keyof EngineEventMap>(name: K, listener: EngineListener<K>): Disposable
}

export type Role = { readonly role: 'command' } | { readonly role: 'server'; readonly address: string }

export type ScopeOptions = Omit<NewScope, 'incarnation' | 'parentId'> & {
  /** The id of the scope above this one. Default: the host scope. */
  readonly parentId?: string
  readonly label?: string
}

/** A resource of this process. The view is live. */
export interface ResourceView {
  readonly intent: Intent
  readonly name: string
  readonly state: ResourceState
}

/** A scope of this process. The view is live. */
export interface ScopeView {
  readonly id: string
  readonly kind: ScopeKind
  readonly parentId: string | undefined
  readonly incarnation: string
  /** The name by which clients know the scope; reports use it. */
  readonly label?: string
  readonly state: ScopeState
  /** The report of the latest close of the scope. */
  readonly report?: Report
  /** Aborts when the scope begins to close. */
  readonly signal: AbortSignal
  readonly resources: ReadonlyMap<string, ResourceView>
  /** The handles of the resources that this process created or resumed. */
  readonly handles: Handles
}

export interface CloseOptions {
  /** True for a close that belongs to a larger one. Only the report of the larger close is stored and emitted. */
  readonly isPart?: boolean
  /** The progress of the larger close that this close belongs to. */
  readonly partOf?: Progress
  /** How the report names a scope that is no longer in memory. */
  readonly name?: Report['scope']
}

export type CombinedClose = Omit<Undertaking, 'startedAt' | 'startedMs'>

export interface Combined {
  readonly report: Report
  /** Settles when the report is stored in the audit trail, or could not be stored. */
  readonly stored: Promise<void>
}

export interface RecoverOptions {
  /**
   * How long to wait for another process that is recovering the same supervisors. After the wait this process recovers what the other one
   * left. Default: no wait.
   */
  readonly waitMs?: number
  /**
   * True gives back the claim on dead supervisors whose recovery cannot be finished now. It is for processes that end soon and have no
   * reaper that tries again.
   */
  readonly releasesClaims?: boolean
}

/** How long a caller of `recover` waits for another process, such as a sentinel, that is recovering the same supervisors. */
export const othersRecoveryMs = 10_000

export interface Recovery {
  readonly reports: readonly Report[]
  /** Supervisors of which this process cannot tell whether they are dead. They are left alone (G4). */
  readonly unknown: readonly string[]
  /** Dead supervisors that another living process was recovering. */
  readonly elsewhere: readonly string[]
  readonly errors: readonly string[]
}

/** An agent that outlived its supervisor. */
export interface Kept {
  readonly scope: Scope
  readonly resources: readonly Resource[]
}

/** Takes over as many agents as it can. Returns the ids of the scopes that this process owns from then on. */
export type Adopter = (kept: readonly Kept[], contents: LedgerContents) => Promise<ReadonlySet<string>>

/** Scopes of a dead supervisor that move into this process, with their resources. */
export interface Adoption {
  /**
   * The scopes from the outermost to that of the agent. The new parent of each is in this process already, or comes earlier in the list.
   */
  readonly scopes: readonly (Scope & { readonly parentId: string; readonly label?: string })[]
  readonly resources: readonly Resource[]
}

export interface Adopted {
  /** The innermost of the adopted scopes, which is that of the agent. */
  readonly scope: ScopeView
  /** Connects this process to the adopted resources that are running, so that they have handles. */
  resume(): Promise<void>
}

export interface ReaperSettings {
  readonly intervalMs: number
  /** How long the reaper must have seen a resource that is in no ledger before it ends that resource. */
  readonly minimumAgeMs: number
}

export interface ReapRequest {
  /** True: the reaper pass observes the system and changes nothing. */
  readonly dryRun: boolean
  /** True: the reaper pass reports resources that are in no ledger and not on this host, but does not end them. */
  readonly sparesRemote?: boolean
}

export interface Orphan {
  readonly kind: string
  readonly name: string
  readonly why: 'held-back' | 'leak' | 'unrecorded' | 'dead-incarnation' | 'unknown-incarnation'
  readonly detail: string
  /**
   * True for a resource that the reaper found and left alone: it is not on this host, and the request did not ask to end such resources.
   */
  readonly isSpared?: true
}

export interface ReaperPass {
  readonly found: readonly Orphan[]
  readonly released: readonly Orphan[]
  readonly left: readonly Orphan[]
  readonly errors: readonly string[]
  /** True when most of the listed resources are in no ledger. The ledger itself may then be wrong, so the pass ends none of them. */
  readonly breakerOpen: boolean
}

/** Whether the system is clean, counted in the system and not in the ledger alone. */
export interface Status {
  readonly isClean: boolean
  readonly agentCount: number
  readonly messageCount: number
  readonly runningProcesses: number
  readonly activeSubscriptions: number
  readonly resources: Readonly<Record<string, { held: number; closing: number; stuck: number }>>
  /** Resources that exist although the ledger does not have them as open, and listings that failed. */
  readonly leaks: readonly string[]
  readonly stuck: readonly string[]
  readonly heldBack: readonly string[]
}

/** A resource, a process or an agent that was seen in the system or in the ledger. */
export interface Seen {
  readonly scopeId: string
  readonly incarnation: string
  /** True when the ledger has the resource, or this process has its scope. */
  readonly isRecorded: boolean
}

/** What the engine cannot count itself, and which part of the system a status is about. */
export interface StatusSources {
  readonly runningProcesses: () => Promise<readonly TreeMember[]>
  /**
   * Called once, with everything that was seen. Returns the filter that selects what the status is about. Without this function the status
   * is about everything.
   */
  readonly ours?: (seen: readonly Seen[]) => Promise<(one: Seen) => boolean>
  /** True when the status is about a part of the system, such as a namespace. */
  readonly isPart?: boolean
  /** Counts the rows of agents and messages. */
  readonly rows?: () => Promise<Totals>
  /** The stuck agents by id, each with a list of what is left of it besides its resources. */
  readonly stuckAgents?: () => Promise<ReadonlyMap<string, readonly string[]>>
  readonly activeSubscriptions?: () => number
}

/** The status, and the things behind its counts. */
export interface SystemObservation {
  readonly status: Status
  readonly processes: readonly TreeMember[]
  /** The resources that are in the ledger and not released. */
  readonly open: readonly Resource[]
}

/** The events of an engine, each with its arguments. */
export interface EngineEventMap {
  /** A close has ended: its report, the namespace it was in, if in one, and its id in the audit trail. */
  report: [report: Report, namespace: string | undefined, id: string]
  /** A close that has a report of its own has begun. */
  'close-started': [progress: Progress, about: Undertaking]
  /** In a running close that has a report of its own, a resource has moved to another state. */
  'close-moved': [progress: Progress, track: Track]
  /** A close is over, and nothing more is emitted about it. */
  'close-over': [progress: Progress]
  /** A reaper pass has found a resource of this kind that nothing had closed. */
  orphan: [kind: string]
}

export type EngineListener<K extends keyof EngineEventMap> = (...event: EngineEventMap[K]) => void
