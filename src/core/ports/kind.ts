import type { Policy } from '../model/close-request.ts'
import type { LadderStep } from '../model/ladder.ts'
import type { Intent, OnLoss, Presence, Proof } from '../model/resource.ts'
import type { Clock } from './clock.ts'
import type { Exit } from './effects.ts'

export interface Ctx {
  /** Aborts when the caller no longer waits. */
  readonly signal: AbortSignal
  readonly clock: Clock
  /** Adds a note to the resource's report. */
  readonly note?: (text: string) => void
}

export interface CreateCtx extends Ctx {
  /** Writes a detail to the ledger in the middle of a creation, and resolves when the write is durable. */
  record(detail: unknown): Promise<void>
  /** The handle of a resource created earlier in the same plan, by its label: an open pipe, a child process. */
  handle(label: string): unknown
  /** Input of the creation that the ledger may not hold: arguments, environment, open descriptors. */
  readonly live: unknown
}

export interface Created {
  /** Facts that are known only after the creation. They are saved together with the state `held`. */
  readonly detail?: unknown
  /** A live object for the process that launched the resource, such as a child process. It is only in memory. */
  readonly handle?: unknown
}

/** `exhausted` settles when the step can have no further effect, so that the ladder need not wait for its budget to end. */
export interface StepEffect {
  readonly exhausted?: Promise<void>
}

/** Selects what a listing returns: resources of an installation, of one incarnation, or of some scopes. */
export interface Owner {
  readonly installation: string
  readonly incarnation?: string
  readonly scopeIds?: ReadonlySet<string>
}

/** Something that exists and carries our mark. */
export interface Found {
  readonly resourceId: string
  readonly incarnation: string
  readonly name: string
  /** The spec with which the resource can be adopted. */
  readonly spec: unknown
}

/** The properties of a kind that the rest of the program needs, because it does not know kinds by name. */
export interface KindTraits {
  /**
   * The resource is not on this host, so observing it is a call that may be slow or fail. A close sweeps such a kind only when the
   * scope had a resource of it; the reaper sweeps all kinds.
   */
  readonly isRemote?: true
  /**
   * The processes of such a resource serve an agent and are not the agent's own, such as a log's collector. They are not counted among an
   * agent's processes.
   */
  readonly attends?: true
  /**
   * A resource of this kind runs the agent in place of a process tree on this host. An observation of it decides whether the agent is
   * alive.
   */
  readonly runsAgent?: true
  /** A resource of this kind is the terminal of an agent. */
  readonly isTerminal?: true
  /** The label of a resource of this kind in plans. An adopted resource gets its handle under this label. */
  readonly planLabel?: string
}

/** How people see a kind of resource. It is known whether or not the placement of the kind is configured. */
export interface KindLabel {
  /** Such as `Process tree`. */
  readonly title: string
  /** The last step of its ladder ends running processes. For any other kind that step only removes the resource. */
  readonly endsProcesses?: true
  /** A resource of this kind is on another host, which proves that it is gone. */
  readonly isOnOtherHost?: true
}

export type KindLabels = ReadonlyMap<string, KindLabel>

/**
 * One kind of resource: how it is created, observed and released. The engine adds deadlines, retries and logging; the crash tests wrap it
 * to inject faults.
 */
export interface ResourceKind<Spec = unknown, Ref = unknown> extends KindTraits {
  readonly kind: string
  /**
   * A resource of this kind may exist after a power cut, and only the ledger can find it. So its intent is on the disk before it is
   * created. Other kinds end with the power, or are found by `list`.
   */
  readonly outlivesPower?: true
  /**
   * Resources of this kind are created after those that depend on them. Unrecorded resources are released in reverse order of creation, so
   * this kind goes last among them.
   */
  readonly goesLast?: true
  /**
   * Kinds that this kind depends on. A forced close releases them as soon as the kill of this resource was requested, without waiting for
   * its end.
   */
  readonly yieldsByForceTo?: readonly string[]
  /** Time limit for one creation, where the default is too short. */
  readonly createBudgetMs?: number
  /** Pure, and callable before the creation. Returns everything needed to find the resource again (G1). */
  name(intent: Intent<Spec>): Ref
  /** The name in reports and messages. */
  describe(ref: Ref): string
  /** The ladder steps that have an effect on this resource. */
  steps(ref: Ref): readonly LadderStep[]
  create(ref: Ref, spec: Spec, ctx: CreateCtx): Promise<Created>
  /** Returns a new handle, as from `create`, for an existing resource that another supervisor created. */
  resume?(ref: Ref, ctx: Ctx): Promise<unknown>
  /** For resources that outlive their supervisor: the exit, if the resource has ended by itself. */
  ended?(ref: Ref): Promise<Exit | undefined>
  observe(ref: Ref, ctx: Ctx): Promise<Presence>
  release(ref: Ref, step: LadderStep, ctx: Ctx): Promise<StepEffect>
  /** Settles when the resource is gone. Aborts with `ctx.signal`. */
  gone(ref: Ref, ctx: Ctx): Promise<Proof>
  /** Lists what exists and carries our mark. */
  list(owner: Owner, ctx: Ctx): AsyncIterable<Found>
  /** Removes what the resources of an incarnation shared, such as a cgroup. Called after the last of these resources is gone. */
  tidy?(incarnation: string, ctx: Ctx): Promise<void>
  /** Work owed before the resource may go, derived from what exists now (G8). */
  obligations?(ref: Ref, policy: Policy): readonly string[]
  meet?(obligation: string, ref: Ref, ctx: Ctx): Promise<void>
  /** How long the resource may take to go after it was asked to. A close without a deadline waits this long. */
  patienceMs?(ref: Ref): number
  /** An obligation that cannot be met for this long is given up, even without force. Undefined: never. */
  givesUpAfterMs?(ref: Ref): number | undefined
}

/** A kind that no placement brings, with its label. The labels of other kinds are in the definition of their placement. */
export interface LabelledKind<Spec = unknown, Ref = unknown> extends ResourceKind<Spec, Ref> {
  readonly label: KindLabel
}

export type Kinds = ReadonlyMap<string, ResourceKind>

/** One resource of a launch plan. The placement makes the plan, and the engine creates the resources. */
export interface Planned {
  /** The name by which other resources of the plan refer to it. */
  readonly label: string
  readonly kind: string
  /** Stored in the ledger, so never arguments, environment or tokens. */
  readonly spec: unknown
  /** Input of the creation that the ledger may not hold. Only in memory. */
  readonly live?: unknown
  readonly dependsOn?: readonly string[]
  readonly onLoss?: OnLoss
}
