import type { Mark } from '../../core/model/identity.ts'
import type { OnLoss, Presence, Proof } from '../../core/model/resource.ts'
import type { Child, Command, Stdio } from '../../core/ports/effects.ts'
import type { Ctx, Found, Owner } from '../../core/ports/kind.ts'
import type { ContainmentName, Limits, TreeLaunch, TreeMember, TreePlace, TreeSpec } from '../../core/ports/process.ts'

/** What the world told at creation. */
export interface TreeDetail {
  readonly pid: number
  readonly startTime: string
}

/** A process tree by name: found again by this alone (G1). */
export interface Tree {
  readonly mark: Mark
  readonly spec: TreeSpec
  readonly main: TreeDetail | undefined
  /** The containment's own thing for this tree: a cgroup, or a door. */
  readonly place: string
  readonly limitPlaces: readonly string[]
}

/** A launch whose streams are all descriptors by now. */
export interface TreeStart extends Omit<TreeLaunch, 'terminal'> {
  readonly stdio: readonly Stdio[]
  /** Who starts it, where it is not to be a child of ours. */
  readonly spawn?: (command: Command) => Promise<Child>
}

/**
 * One way to hold a process tree. A child enters through a door that the containment makes before the spawn and
 * removes first at the end, so that a child forked just before a SIGKILL of the supervisor dies at the door.
 */
export interface Containment {
  readonly name: ContainmentName
  /** The durable part of the name of this incarnation's trees. */
  place(limits?: Limits, onLoss?: OnLoss): TreePlace
  /** A launch is near: what it would have to wait for, and changes nothing, is begun. */
  expectLaunch?(): void
  start(tree: Tree, launch: TreeStart): Promise<Child>
  observe(tree: Tree, ctx: Ctx): Promise<Presence>
  /** Does the kernel say that a living process is inside? */
  holds(tree: Tree, pid: number): boolean
  /** To every process of the tree, in this order. */
  signal(tree: Tree, signals: readonly NodeJS.Signals[]): Promise<void>
  kill(tree: Tree): Promise<void>
  gone(tree: Tree, ctx: Ctx): Promise<Proof>
  list(owner: Owner): AsyncIterable<Found>
  /** Every process that stands in one of this installation's trees, where the containment can tell. */
  members(): Iterable<TreeMember>
  tidy(incarnation: string, ctx: Ctx): Promise<void>
  /** Ends every tree of this incarnation, but those that are kept, without waiting: for exit handlers, which cannot await. */
  killAllNow(kept: ReadonlySet<string>): void
}
