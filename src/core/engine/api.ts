import type { CloseRequest } from '../model/close-request.ts'
import type { Report } from '../model/report.ts'
import type { Intent, Presence, Resource, ResourceState } from '../model/resource.ts'
import type { Scope, ScopeKind, ScopeState } from '../model/scope.ts'
import type { Totals } from '../ports/agents.ts'
import type { Planned } from '../ports/kind.ts'
import type { LedgerContents, NewScope } from '../ports/ledger.ts'
import type { TreeMember } from '../ports/process.ts'
import type { Progress, Track, Undertaking } from './progress.ts'

/**
 * The public API of the engine. The rest of the program uses the engine through this page alone: it opens scopes, launches into
 * them, and closes them. `createEngine` in `engine.ts` makes one.
 */
export interface Engine {
  /** The scope above all others of this process. */
  readonly hostScopeId: string

  /** Starts the sentinel, then records this process and its host scope in the ledger. Refused when another server uses the home. */
  begin(role?: Role): Promise<void>
  /** Ends a process that could not begin: there is nothing to watch and nothing to recover. */
  abandon(): void
  /**
   * Opens a scope in memory at once. `recorded` settles when the ledger has it. Calls made in the same turn of the event loop
   * share a transaction, so opening a scope and launching into it cost one fsync.
   */
  openScope(scope: ScopeOptions): ScopeView
  /** Creates what the plan lists, or nothing: a launch that fails closes its scope with `launch-rollback`. */
  launch(scope: ScopeView, plan: readonly Planned[]): Promise<Handles>

  /** The only way to end anything. Closing a scope that is closing joins the running close (G6). */
  close(scopeId: string, request: CloseRequest, options?: CloseOptions): Promise<Report>
  /** Runs several closes as one, such as a reset: they are watched together, and reported under one id. */
  combine(about: CombinedClose, work: (whole: Progress) => Promise<Report>): Promise<Combined>
  /** Closes everything, retires this process from the ledger, and dismisses the sentinel. */
  shutDown(request?: CloseRequest): Promise<Report>
  /** Closes everything but agents that are kept; the next server adopts those. */
  leave(request: CloseRequest): Promise<Report>

  /** Finishes what dead supervisors of this installation left. Safe at any time; two calls at once are one. */
  recover(options?: RecoverOptions): Promise<Recovery>
  /** Takes over agents of a dead supervisor; see `Adoption`. */
  adopt(adoption: Adoption): Promise<Adopted>
  /** One pass that finds what nothing closed, and closes it. Two passes with the same request at once are one. */
  reap(request: ReapRequest): Promise<ReaperPass>
  /** Reaps at the configured interval until the signal aborts. */
  startReaping(signal: AbortSignal): void

  /** A scope of this process, or nothing when it is another process's or is closed. */
  inspect(scopeId: string): ScopeView | undefined
  /** The scope and all scopes below it, parents first. */
  inspectTree(scopeId: string): readonly ScopeView[]
  /** All scopes of this process. */
  scopes(): Iterable<ScopeView>
  owns(scopeId: string): boolean
  /** The close that runs on a scope: its id in the audit trail, and whether it has a report of its own there. */
  closeOf(scopeId: string): { readonly id: string; readonly isReported: boolean } | undefined
  namespaceOf(scopeId: string): string | undefined
  /** Scopes of agents that outlive this process. */
  keptAgents(): readonly string[]
  /** The ledger's resources of a scope, with the states that a running close has reached. */
  resources(scopeId: string): Promise<readonly Resource[]>
  /** All resources of this home that are not released. */
  openResources(): Promise<readonly Resource[]>
  /** Observes one resource now. No answer within the time limit is `unknown` (G4). Nothing for a kind that this process cannot observe. */
  observe(resource: Intent, timeoutMs: number): Promise<Presence | undefined>
  /** Counts what exists, by looking at the system and not at the ledger alone. */
  look(sources: StatusSources): Promise<SystemObservation>
  /** Other supervisors of this home that are not proven dead. */
  otherIncarnations(): Promise<ReadonlySet<string>>
  /** True for a kind whose resources are not on this host. */
  isRemote(kind: string): boolean

  /** Opens a closed scope again, closing, because something of it is left: the next close goes on with it (G11). */
  reopen(id: string, parentId: string, request: CloseRequest): void
  /** Records that agents are to be forgotten before their archives and rows are removed: a recovery finishes an interrupted removal (G9). */
  condemn(agentIds: readonly string[]): Promise<void>

  on<K extends keyof EngineEventMap>(name: K, listener: EngineListener<K>): Disposable
}

export type Role = { readonly role: 'command' } | { readonly role: 'server'; readonly address: string }

export type ScopeOptions = Omit<NewScope, 'incarnation' | 'parentId'> & {
  /** Default: the host scope. */
  readonly parentId?: string
  readonly label?: string
}

/** Live handles by the labels of the plan. */
export type Handles = ReadonlyMap<string, unknown>

/** A resource of this process. The view is live. */
export interface ResourceView {
  readonly intent: Intent
  readonly name: string
  readonly state: ResourceState
  /** What its creation gave to the process that launched it. */
  readonly handle?: unknown
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
  /** The report of its latest close. */
  readonly report?: Report
  /** Settles when the ledger has the scope. */
  readonly recorded: Promise<void>
  /** Aborts when the scope begins to close. */
  readonly signal: AbortSignal
  readonly resources: ReadonlyMap<string, ResourceView>
}

export interface CloseOptions {
  /** The close belongs to a larger one, whose report is the one that is stored and emitted. */
  readonly isPart?: boolean
  /** The progress of that larger close. */
  readonly partOf?: Progress
  /** How the report names a scope that is no longer in memory. */
  readonly name?: Report['scope']
}

export type CombinedClose = Omit<Undertaking, 'startedAt' | 'startedMs'>

export interface Combined {
  readonly report: Report
  /** Settles when the audit trail has the report, or could not take it. */
  readonly stored: Promise<void>
}

export interface RecoverOptions {
  /** How long to wait for another process that is recovering the same supervisors; what it leaves is then recovered here. Default: not at all. */
  readonly waitMs?: number
  /** Gives back the claim on what cannot be finished now. For processes that end soon and have no reaper that tries again. */
  readonly releasesClaims?: boolean
}

/** How long a caller waits for another process, such as a sentinel, that is recovering what the call is about. */
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

/** Scopes of a dead supervisor that move into this process, with what they hold. */
export interface Adoption {
  /** From the outermost to the agent; each with its new parent, which is in this process or comes before it in the list. */
  readonly scopes: readonly (Scope & { readonly parentId: string; readonly label?: string })[]
  readonly resources: readonly Resource[]
}

export interface Adopted {
  /** The innermost scope. */
  readonly scope: ScopeView
  /** Connects again to what is running, so that the resources have handles. */
  resume(): Promise<void>
}

export interface ReaperSettings {
  readonly intervalMs: number
  /** How long something unrecorded must have been seen before it is ended. */
  readonly minimumAgeMs: number
}

export interface ReapRequest {
  /** Only look; change nothing. */
  readonly dryRun: boolean
  /** Show what is unrecorded and not on this host, but do not end it. */
  readonly sparesRemote?: boolean
}

export interface Orphan {
  readonly kind: string
  readonly name: string
  readonly why: 'held-back' | 'leak' | 'unrecorded' | 'dead-incarnation' | 'unknown-incarnation'
  readonly detail: string
  /** It is not on this host, and the request did not ask for such things to be ended. */
  readonly isSpared?: true
}

export interface ReaperPass {
  readonly found: readonly Orphan[]
  readonly released: readonly Orphan[]
  readonly left: readonly Orphan[]
  readonly errors: readonly string[]
  /** Set when most of what was found is unrecorded: the ledger may be the one that is wrong, so nothing unrecorded was touched. */
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
  /** Present although its scope is closed, or in no ledger. */
  readonly leaks: readonly string[]
  readonly stuck: readonly string[]
  readonly heldBack: readonly string[]
}

/** Something that was seen in the system or in the ledger. */
export interface Seen {
  readonly scopeId: string
  readonly incarnation: string
  /** The ledger says to which scope it belongs. */
  readonly isRecorded: boolean
}

/** What the engine cannot count itself, and which part of the system a status is about. */
export interface StatusSources {
  readonly runningProcesses: () => Promise<readonly TreeMember[]>
  /** Called once, with everything that was seen. Returns a filter for what the status is about. Default: everything. */
  readonly ours?: (seen: readonly Seen[]) => Promise<(one: Seen) => boolean>
  /** The status is about a part of the system, such as a namespace. */
  readonly isPart?: boolean
  /** Rows of agents and messages. */
  readonly rows?: () => Promise<Totals>
  /** Stuck agents by id, with what is left of each that is no resource. */
  readonly stuckAgents?: () => Promise<ReadonlyMap<string, readonly string[]>>
  readonly activeSubscriptions?: () => number
}

/** The status, and the things behind its counts. */
export interface SystemObservation {
  readonly status: Status
  readonly processes: readonly TreeMember[]
  /** In the ledger and not released. */
  readonly open: readonly Resource[]
}

/** The events of an engine, each with its arguments. */
export interface EngineEventMap {
  /** A close has ended: its report, the namespace it was in, if in one, and its id in the audit trail. */
  report: [report: Report, namespace: string | undefined, id: string]
  /** A close that has a report of its own has begun. */
  'close-started': [progress: Progress, about: Undertaking]
  /** A resource of such a close has moved to another state. */
  'close-moved': [progress: Progress, track: Track]
  /** Nothing more is emitted about this close. */
  'close-over': [progress: Progress]
  /** A reaper pass has found something of this kind that nothing had closed. */
  orphan: [kind: string]
}

export type EngineListener<K extends keyof EngineEventMap> = (...event: EngineEventMap[K]) => void
