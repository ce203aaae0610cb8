import type { Planned, ResourceKind } from './kind.ts'
import type { PlacementName, ProcessLaunch, TreeMember } from './process.ts'

/** The result of testing one setting, with calls that change nothing. */
export interface SettingCheck {
  /** Its name in a configuration, such as `ecs.cluster`. */
  readonly setting: string
  readonly isGood: boolean
  /** The observation, or the problem and what to do about it. */
  readonly says: string
}

/** Another host on which our agents run, as observed from this one. */
export interface OtherHost {
  readonly name: string
  readonly role: 'runner'
  readonly url: string
  readonly status: 'well' | 'broken' | 'unreachable'
  /** The problem, when there is one. */
  readonly says?: string
  readonly activeAgents?: number
}

/** A placement whose agents are not on this host: its kinds, its plan, and checks whether it can be used. */
export interface Elsewhere {
  readonly name: PlacementName
  readonly kinds: readonly ResourceKind[]
  /**
   * The ordered plan of intents. Throws `launch_refused` when the placement cannot do what the launch requests. Nothing has been created by
   * then.
   */
  plan(scopeId: string, launch: ProcessLaunch): readonly Planned[]
  /** Throws `launch_refused` when nothing can be started there now. Called before anything is created. */
  requireReady(launch: ProcessLaunch): Promise<void>
  /** Tests every setting. A bad setting is a result, not an error. */
  check(): Promise<readonly SettingCheck[]>
  /** The host behind the placement, if there is one. Answers within seconds, and never throws. */
  host?(): Promise<OtherHost>
  /** Processes of this placement's agents that are visible as processes of this host. */
  running?(): Promise<readonly TreeMember[]>
}
