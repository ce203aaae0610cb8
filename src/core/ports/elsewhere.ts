import type { Planned, ResourceKind } from './kind.ts'
import type { PlacementName, ProcessLaunch, TreeMember } from './process.ts'

/** A setting that was tried out, with calls that change nothing. */
export interface SettingCheck {
  /** As it is called in a configuration, such as `ecs.cluster`. */
  readonly setting: string
  readonly isGood: boolean
  /** What was seen, or what is the matter and what to do about it. */
  readonly says: string
}

/** A host beside this one on which our agents run, as it is seen from here. */
export interface OtherHost {
  readonly name: string
  readonly role: 'runner'
  readonly url: string
  readonly status: 'well' | 'broken' | 'unreachable'
  /** What is the matter. */
  readonly says?: string
  readonly activeAgents?: number
}

/** A placement that is not on this host: its kinds, its plan, and whether it can be used. */
export interface Elsewhere {
  readonly name: PlacementName
  readonly kinds: readonly ResourceKind[]
  /** The ordered plan of intents; throws `launch_refused`, and nothing exists yet, when the launch asks for what this cannot give. */
  plan(scopeId: string, launch: ProcessLaunch): readonly Planned[]
  /** Throws `launch_refused` when nothing can be started there now; asked before anything is made. */
  requireReady(launch: ProcessLaunch): Promise<void>
  /** Every setting, tried out. Never throws for what is wrong with one. */
  check(): Promise<readonly SettingCheck[]>
  /** The host behind it, where there is one. Answers within seconds, and never throws. */
  host?(): Promise<OtherHost>
  /** What of ours runs there and can be seen as processes of this host. */
  running?(): Promise<readonly TreeMember[]>
}
