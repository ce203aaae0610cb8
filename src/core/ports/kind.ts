import type { Policy } from '../model/close-request.ts'
import type { LadderStep } from '../model/ladder.ts'
import type { Intent, OnLoss, Presence, Proof } from '../model/resource.ts'
import type { Clock } from './clock.ts'
import type { Exit } from './effects.ts'
import type { Handles, Label } from './handles.ts'

/** The types of one kind. */
export interface KindTypes {
  /** What the ledger stores of a resource before it exists. Never arguments, environment or tokens. */
  readonly spec: unknown
  /** Input of the creation that the ledger may not hold: arguments, environment, open descriptors. Only in memory. */
  readonly live: unknown
  /** What the ledger stores once the resource exists: facts that are known only then, such as an inode or a pid. */
  readonly detail: unknown
  /** A live object for the process that launched the resource, such as a child process. Only in memory. */
  readonly handle: unknown
}

/** For the compiler alone: the types of a kind. */
declare const kindTypes: unique symbol

/** The name of a kind, as the ledger stores it. At run time it is a plain string. For the compiler it carries the types of the kind. */
export type KindName<Types extends KindTypes = KindTypes> = string & { readonly [kindTypes]: Types }

/** Names a kind and declares its types. A kind has no `live`, `detail` or `handle` when it declares none. */
export function kindName<Types extends Pick<KindTypes, 'spec'> & Partial<KindTypes>>(name: string): KindName<AllOf<Types>> {
  return name as KindName<AllOf<Types>>
}

type AllOf<Types> = { readonly [Key in keyof KindTypes]: Key extends keyof Types ? Types[Key] : undefined }

export type SpecOf<Kind extends KindName> = Kind[typeof kindTypes]['spec']
type LiveOf<Kind extends KindName> = Kind[typeof kindTypes]['live']
export type DetailOf<Kind extends KindName> = Kind[typeof kindTypes]['detail']
export type HandleOf<Kind extends KindName> = Kind[typeof kindTypes]['handle']
export type IntentOf<Kind extends KindName> = Intent<SpecOf<Kind>, DetailOf<Kind>>

/** A property that may be left out when its value may be undefined. */
type Field<Key extends string, Value> = undefined extends Value ? { readonly [K in Key]?: Value } : { readonly [K in Key]: Value }

/**
 * True for a resource of this kind. Its spec and its detail then have the types of the kind, because the ledger stores them under its name.
 */
export function isOfKind<
  Kind extends KindName,
  Stored extends { readonly kind: string; readonly spec: unknown; readonly detail?: unknown },
>(kind: Kind, resource: Stored): resource is Stored & Pick<IntentOf<Kind>, 'spec' | 'detail'> {
  return resource.kind === kind
}

export interface Ctx {
  /** Aborts when the caller no longer waits. */
  readonly signal: AbortSignal
  readonly clock: Clock
  /** Adds a note to the resource's report. */
  readonly note?: (text: string) => void
}

export interface CreateCtx<Kind extends KindName = KindName> extends Ctx {
  /** Writes a detail to the ledger in the middle of a creation, and resolves when the write is durable. */
  record(detail: DetailOf<Kind>): Promise<void>
  /** The handles of resources created earlier in the same scope: an open pipe, a child process. */
  readonly handles: Handles
  readonly live: LiveOf<Kind>
}

/** The detail is saved together with the state `held`. */
export type Created<Kind extends KindName = KindName> = { readonly detail?: DetailOf<Kind> } & Field<'handle', HandleOf<Kind>>

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
export interface Found<Spec = unknown> {
  readonly resourceId: string
  readonly incarnation: string
  readonly name: string
  /** The spec with which the resource can be adopted. */
  readonly spec: Spec
}

/** The properties of a kind that the rest of the program needs, because it does not know kinds by name. */
export interface KindTraits {
  /**
   * A resource of this kind is not on this host, so observing it is a call that may be slow or fail. A close sweeps the kind only when the
   * scope had a resource of it; the reaper sweeps all kinds.
   */
  readonly isRemote?: true
  /**
   * The processes of a resource of this kind serve an agent and are not the agent's own, such as a log's collector. They are not counted
   * among an agent's processes.
   */
  readonly attends?: true
  /**
   * A resource of this kind runs the agent in place of a process tree on this host. An observation of it decides whether the agent is
   * alive.
   */
  readonly runsAgent?: true
  /** A resource of this kind is the terminal of an agent. */
  readonly isTerminal?: true
}

/** How people see a kind of resource. It is known whether or not the placement of the kind is configured. */
export interface KindLabel {
  /** The title of the kind, such as `Process tree`. */
  readonly title: string
  /** The last ladder step of this kind ends running processes. For any other kind that step only removes the resource. */
  readonly endsProcesses?: true
  /** A resource of this kind is on another host. That host proves that the resource is gone. */
  readonly isOnOtherHost?: true
}

export type KindLabels = ReadonlyMap<string, KindLabel>

/**
 * One kind of resource: how it is created, observed and released. The engine adds deadlines, retries and logging; the crash tests wrap it
 * to inject faults. The engine handles every kind as a `ResourceKind` without type arguments, whose types are `unknown`. It passes each
 * kind only what was planned for that kind, stored under its name, or returned by that kind.
 */
export interface ResourceKind<Kind extends KindName = KindName, Ref = unknown> extends KindTraits {
  readonly kind: Kind
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
  /** Derives the reference by which the resource is found again (G1). Pure, and callable before the creation. */
  name(intent: IntentOf<Kind>): Ref
  /** The name of the resource in reports and messages. */
  describe(ref: Ref): string
  /** The ladder steps that have an effect on this resource. */
  steps(ref: Ref): readonly LadderStep[]
  create(ref: Ref, spec: SpecOf<Kind>, ctx: CreateCtx<Kind>): Promise<Created<Kind>>
  /** Returns a new handle, as from `create`, for an existing resource that another supervisor created. */
  resume?(ref: Ref, ctx: Ctx): Promise<HandleOf<Kind> | undefined>
  /** The label of a resource in the plan that created it. The handle of an adopted resource is found under this label. */
  planLabel?(ref: Ref): Label<HandleOf<Kind>> | undefined
  /** For resources that outlive their supervisor: the exit, if the resource has ended by itself. */
  ended?(ref: Ref): Promise<Exit | undefined>
  observe(ref: Ref, ctx: Ctx): Promise<Presence>
  release(ref: Ref, step: LadderStep, ctx: Ctx): Promise<StepEffect>
  /** Settles when the resource is gone. Aborts with `ctx.signal`. */
  gone(ref: Ref, ctx: Ctx): Promise<Proof>
  /** Lists what exists and carries our mark. */
  list(owner: Owner, ctx: Ctx): AsyncIterable<Found<SpecOf<Kind>>>
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
export interface LabelledKind<Kind extends KindName = KindName, Ref = unknown> extends ResourceKind<Kind, Ref> {
  readonly label: KindLabel
}

export type Kinds = ReadonlyMap<string, ResourceKind>

/** One resource of a launch plan. The placement makes the plan with `planned`, and the engine creates the resources. */
export interface Planned {
  readonly label: Label
  readonly kind: KindName
  readonly spec: unknown
  readonly live?: unknown
  /** What the resource depends on: labels of the plan, or ids of resources of scopes above. */
  readonly dependsOn?: readonly string[]
  readonly onLoss?: OnLoss
}

/**
 * Plans one resource. The compiler checks that spec and live input have the types of the kind, and that the kind gives the handle that the
 * label promises.
 */
export function planned<Handle, Kind extends KindName<KindTypes & { readonly handle: Handle }>>(
  resource: Pick<Planned, 'dependsOn' | 'onLoss'> & {
    readonly label: Label<Handle>
    readonly kind: Kind
    readonly spec: SpecOf<Kind>
  } & Field<'live', LiveOf<Kind>>,
): Planned {
  return resource
}
