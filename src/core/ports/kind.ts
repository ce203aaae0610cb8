import type { Policy } from '../model/close-request.ts'
import type { LadderStep } from '../model/ladder.ts'
import type { Intent, OnLoss, Presence, Proof } from '../model/resource.ts'
import type { Clock } from './clock.ts'
import type { Exit } from './effects.ts'

export interface Ctx {
  /** Aborts when the caller no longer waits. */
  readonly signal: AbortSignal
  readonly clock: Clock
  /** Says something that the report should carry. */
  readonly note?: (text: string) => void
}

export interface CreateCtx extends Ctx {
  /** Writes a detail to the ledger and waits until it is durable, in the middle of a creation. */
  record(detail: unknown): Promise<void>
  /** Live handles of resources created earlier in the same plan, by their label: an open pipe, a child. */
  handle(label: string): unknown
  /** What a creation needs and no ledger may hold: argv, environment, open descriptors. */
  readonly live: unknown
}

export interface Created {
  /** What only the world could tell; saved with `held`. */
  readonly detail?: unknown
  /** For those who launched it; lives in memory only. */
  readonly handle?: unknown
}

/** Settles when a step can bring nothing more, so that the ladder need not wait for the budget. */
export interface StepEffect {
  readonly exhausted?: Promise<void>
}

/** Whose things a listing is about: all of an installation, of one incarnation, or of some scopes. */
export interface Owner {
  readonly installation: string
  readonly incarnation?: string
  readonly scopeIds?: ReadonlySet<string>
}

/** Something in the world that carries our mark. */
export interface Found {
  readonly resourceId: string
  readonly incarnation: string
  readonly name: string
  /** The spec that would lead to this thing, so that it can be adopted. */
  readonly spec: unknown
}

/**
 * The dumb part: how one sort of thing is made, seen and ended. Deadlines, retries, once-only, logging and fault
 * injection are wrapped around it from outside.
 */
export interface ResourceKind<Spec = unknown, Ref = unknown> {
  readonly kind: string
  /**
   * After a power cut it may still be there, and only the ledger knows: its intent is on the disk before it is made. Processes
   * are gone then, and what `list` finds needs no record.
   */
  readonly outlivesPower?: true
  /**
   * It is not on this host, so to ask for it is a call that may be slow or fail. A close sweeps such a kind only where it had
   * something of it; the reaper sweeps all.
   */
  readonly isRemote?: true
  /** Made after what stands on it, so among things that are on no books it goes last. */
  readonly goesLast?: true
  /** Of what it stands on, the kinds that a forced close ends as soon as this was asked to go, without waiting for its end. */
  readonly yieldsByForceTo?: readonly string[]
  /** How long one creation may take, where the usual time is not enough. */
  readonly createBudgetMs?: number
  /** Pure, and before creation: everything needed to find the resource again (G1). */
  name(intent: Intent<Spec>): Ref
  /** How reports and people call it. */
  describe(ref: Ref): string
  /** The ladder steps that mean something for this resource. */
  steps(ref: Ref): readonly LadderStep[]
  create(ref: Ref, spec: Spec, ctx: CreateCtx): Promise<Created>
  /** A handle again for something that another supervisor made and that is there: what `create` gave to those who launched it. */
  resume?(ref: Ref, ctx: Ctx): Promise<unknown>
  /** Of something that outlives its supervisor: has it come to its own end meanwhile, and how? */
  ended?(ref: Ref): Promise<Exit | undefined>
  observe(ref: Ref, ctx: Ctx): Promise<Presence>
  release(ref: Ref, step: LadderStep, ctx: Ctx): Promise<StepEffect>
  /** Settles on the event; aborts with `ctx.signal`. */
  gone(ref: Ref, ctx: Ctx): Promise<Proof>
  /** The reverse sweep: what the world says is ours. */
  list(owner: Owner, ctx: Ctx): AsyncIterable<Found>
  /** Takes away what an incarnation's resources shared, once they are all gone. */
  tidy?(incarnation: string, ctx: Ctx): Promise<void>
  /** Work owed before the resource may go, seen by looking at the world (G8). */
  obligations?(ref: Ref, policy: Policy): readonly string[]
  meet?(obligation: string, ref: Ref, ctx: Ctx): Promise<void>
  /** How long it may take to go once it was asked to, by its nature: a close that was given no deadline waits that long. */
  patienceMs?(ref: Ref): number
  /** After how long an obligation that cannot be met is given up even without force; never, unless it says so. */
  givesUpAfterMs?(ref: Ref): number | undefined
}

export type Kinds = ReadonlyMap<string, ResourceKind>

/** One resource of a launch plan. The placement makes the plan; the engine walks it. */
export interface Planned {
  /** What other resources of the same plan call it. */
  readonly label: string
  readonly kind: string
  /** Goes into the ledger: never argv, environment or tokens. */
  readonly spec: unknown
  /** Stays in memory: what the creation needs and the ledger may not hold. */
  readonly live?: unknown
  readonly dependsOn?: readonly string[]
  readonly onLoss?: OnLoss
}
