import type { KindLabel, Planned, ResourceKind } from './kind.ts'
import type { ProcessLaunch, TreeMember } from './process.ts'

/** The result of trying out one setting with calls that change nothing. */
export interface SettingCheck {
  /** The setting as a configuration file names it, such as `ecs.cluster`. */
  readonly setting: string
  readonly isGood: boolean
  /** What the check observed, or what is wrong with the setting and what to do about it. */
  readonly says: string
}

/** Another host on which agents of this supervisor run, as it was observed from here. */
export interface OtherHost {
  readonly name: string
  readonly role: 'runner'
  readonly url: string
  readonly status: 'well' | 'broken' | 'unreachable'
  /** What is wrong with the host. */
  readonly says?: string
  readonly activeAgents?: number
}

/** How people see a placement and the kinds of its resources. */
export interface PlacementLabels {
  readonly title: string
  /** What a launch waits for, after the words "waiting for". By default the start of the program. */
  readonly waitsFor?: string
  /** The kinds that the placement brings, by name. */
  readonly resources: Readonly<Record<string, KindLabel>>
}

/** What is true of a placement whether or not it is configured. */
export interface PlacementTraits {
  readonly labels: PlacementLabels
  /** The placement's agents are not processes of this host. */
  readonly isRemote: boolean
  /** The placement's agents have a terminal that a person can attach to. It is named after the agent, so the agent needs a name. */
  readonly hasTerminal: boolean
  /** The placement's agents run at a host of their own, which the placement observes. */
  readonly hasHost: boolean
  /** The setting without which the placement is not configured, as a configuration file names it, and what that setting names. */
  readonly needs?: { readonly setting: string; readonly what: string }
}

/** Where a person's programs find the terminal of an agent. */
export interface TerminalPlace {
  readonly session: string
  readonly socket: string
}

/** The traits of every placement that this version knows, by name. */
export type PlacementTable = ReadonlyMap<string, PlacementTraits>

/** The placement of a launch that names none. */
export const defaultPlacement = 'process'

/** True when agents of this placement are not processes of this host. */
export function isRemotePlacement(table: PlacementTable, name: string = defaultPlacement): boolean {
  return table.get(name)?.isRemote === true
}

/** A placement that is configured: agents can be launched into it. */
export interface Placement {
  readonly name: string
  /** The kinds of resources in the placement's plans, beside those that every placement uses. */
  readonly kinds: readonly ResourceKind[]
  /** False when a program that the placement needs is missing. */
  readonly isUsable?: () => boolean
  /**
   * The ordered intents of a launch. Throws `launch_refused`, before anything exists, when the placement cannot do what the launch asks
   * for.
   */
  plan(scopeId: string, launch: ProcessLaunch): readonly Planned[]
  /** Throws `launch_refused` when nothing can be started in the placement now. Called before anything is created. */
  requireReady?(launch: ProcessLaunch): Promise<void>
  /** Tries out every setting of the placement. A bad setting is a result, never an exception. */
  check?(): Promise<readonly SettingCheck[]>
  /** Observes the other host of the placement, where there is one. Answers within seconds and never throws. */
  host?(): Promise<OtherHost>
  /** Processes of the placement's agents that are visible on this host. */
  running?(): Promise<readonly TreeMember[]>
}
