import type { Option } from '../config/option.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Effects } from '../core/ports/effects.ts'
import type { Host } from '../core/ports/host.ts'
import type { Log } from '../core/ports/log.ts'
import type { Placement, PlacementTraits, TerminalPlace } from '../core/ports/placement.ts'
import type { ProcessTable } from '../host/processes/process-table.ts'
import type { LaunchContext } from './files.ts'

/** Options by key. Each key begins with the name of its placement; flags, variables and file keys follow from it. */
export type OptionTable = Readonly<Record<string, Option<unknown>>>

export type SettingsOf<Options extends OptionTable> = {
  readonly [K in keyof Options]: ReturnType<Options[K]['parse']> | Options[K]['fallback']
}

/**
 * Everything that the rest of the program knows about one placement. A definition is read at every start, so it holds no code that
 * is only needed by a launch: `open` loads that.
 */
export interface PlacementDefinition<Options extends OptionTable = OptionTable> extends Pick<PlacementTraits, 'isRemote' | 'labels'> {
  readonly name: string
  /** True when the placement's agents run at a host of their own, which `Placement.host` observes. */
  readonly hasHost?: true
  readonly options: Options
  /**
   * The option without which the placement is not configured, and what that option names. A placement without `requires` is always
   * configured.
   */
  readonly requires?: { readonly option: keyof Options & string; readonly what: string }
  /** The terminals of the placement's agents, if they have any. A terminal is named after its agent, so the agent needs a name. */
  readonly terminal?: TerminalDefinition
  /** Variables that the recovery by a sentinel needs to find and release the resources of this placement. */
  recoveryEnvironment?(
    settings: SettingsOf<Options>,
    environment: Readonly<Record<string, string>>,
  ): Readonly<Record<string, string | undefined>>
  open(settings: SettingsOf<Options>, parts: PlacementParts): Promise<Placement>
}

/** The terminals of a placement: how a person finds the terminal of an agent, attaches to it, and detaches from it. */
export interface TerminalDefinition {
  /** The keys by which a person detaches from the terminal, as text for help messages. */
  readonly detachKeys: string
  place(home: string, agentName: string): TerminalPlace
  /** Finds the terminal of an agent. Throws `agent_not_found` when the agent has none any more. */
  attachment(agentId: string, parts: AttachmentParts): Promise<Attachment>
}

/** The command that connects this terminal to that of an agent. */
export interface Attachment {
  readonly argv: readonly string[]
  readonly environment: Readonly<Record<string, string>>
}

export interface AttachmentParts {
  readonly home: string
  readonly effects: Effects
  readonly environment: Readonly<Record<string, string>>
}

/** The dependencies of a placement, given when it is opened. */
export interface PlacementParts {
  readonly host: Host
  readonly clock: Clock
  readonly log: Log
  readonly effects: Effects
  readonly processes: ProcessTable
  readonly context: LaunchContext
  /** The environment of this process. */
  readonly environment: Readonly<Record<string, string>>
  /** The environment that agents get. */
  readonly agentEnvironment: Readonly<Record<string, string>>
  /** The environment tag that this process carries, when it runs inside an agent of another Ebb. */
  readonly inheritedTag: string | undefined
  /** The most bytes that an agent may write to one stream, unless its launch says otherwise. */
  readonly limitBytes: number
  /** The gate of the cgroup for tmux servers, where the containment has one. */
  readonly terminalGate: () => string | undefined
  /** Wraps a port before it is used. The crash matrix and the fault tests use it. */
  readonly wrap: <T extends object>(name: string, port: T) => T
}

/** Returns the definition unchanged. The compiler infers the type of each option from the call. */
export function definePlacement<const Options extends OptionTable>(definition: PlacementDefinition<Options>): PlacementDefinition<Options> {
  return definition
}
