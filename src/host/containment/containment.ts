import type { Mark } from '../../core/model/identity.ts'
import type { OnLoss, Presence, Proof } from '../../core/model/resource.ts'
import type { Child, Command, Stdio } from '../../core/ports/effects.ts'
import type { Ctx, Found, Owner } from '../../core/ports/kind.ts'
import type { ContainmentName, Limits, TreeDetail, TreeLaunch, TreeMember, TreePlace, TreeSpec } from '../../core/ports/process.ts'

/** The name of a process tree. It alone is enough to find the tree again (G1). */
export interface Tree {
  readonly mark: Mark
  readonly spec: TreeSpec
  readonly main: TreeDetail | undefined
  /** The path that the containment made for this tree: a cgroup, or a gate file. */
  readonly place: string
  readonly limitPlaces: readonly string[]
}

/** A launch whose streams have been resolved to descriptors. */
export interface TreeStart extends Omit<TreeLaunch, 'stdin' | 'streams' | 'terminal'> {
  readonly stdio: readonly Stdio[]
  /** Starts the command as a child of another process, such as the tmux server. */
  readonly spawn?: (command: Command) => Promise<Child>
}

/**
 * One way to contain a process tree. A child enters through a gate. The containment makes the gate before the spawn, and removes it as
 * the first step of a kill. So a child that was forked just before a SIGKILL of the supervisor fails at the gate and exits.
 */
export interface Containment {
  readonly name: ContainmentName
  /** The part of a tree's name that goes into the ledger; the same for all trees of this incarnation. */
  place(limits?: Limits, onLoss?: OnLoss): TreePlace
  /** Called shortly before a launch. Begins work that the launch would have to wait for, and that changes nothing. */
  expectLaunch?(): void
  start(tree: Tree, launch: TreeStart): Promise<Child>
  observe(tree: Tree, ctx: Ctx): Promise<Presence>
  /** Whether the living process with this pid is inside the tree, according to the kernel. */
  holds(tree: Tree, pid: number): boolean
  /** Sends the signals to every process of the tree, in this order. */
  signal(tree: Tree, signals: readonly NodeJS.Signals[]): Promise<void>
  kill(tree: Tree): Promise<void>
  gone(tree: Tree, ctx: Ctx): Promise<Proof>
  list(owner: Owner): AsyncIterable<Found<TreeSpec>>
  /** All processes in this installation's trees, where the containment can list them without a scan. */
  members(): Iterable<TreeMember>
  tidy(incarnation: string, ctx: Ctx): Promise<void>
  /** Kills every tree of this incarnation except the kept ones. Synchronous, because exit handlers cannot await. */
  killAllNow(kept: ReadonlySet<string>): void
}
