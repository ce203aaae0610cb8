import { dirname, join } from 'node:path'
import type { Config, Sources } from '../config/config.ts'
import type { Agent } from '../core/model/agent.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { PlacementTable } from '../core/ports/placement.ts'
import type { Leftovers } from '../doctor/leftovers-port.ts'
import type { RunningServer } from '../server/http/server.ts'
import type { Composition, Supervisor } from '../supervisor.ts'
import type { Callback } from '../tasks/types.ts'
import type { Arguments, Grammar, Words } from './arguments.ts'

/** Everything about one command: what its help says, what it accepts, and what it does. */
export interface CommandDefinition extends Grammar {
  readonly summary: string
  readonly usage: string
  readonly examples: readonly string[]
  /**
   * True for a command that must exit within a known time, because it serves others. Output that a slow reader has not read is then
   * dropped.
   */
  readonly leavesInTime?: true
  /** True for a command with the exit codes of a shell and of env(1): 125 when Ebb itself failed. */
  readonly exitsLikeShell?: true
  run(args: Arguments, wiring: Wiring): Promise<number>
}

/** The parts of the program that `main.ts` gives to the commands. */
export interface Wiring {
  readonly compose: (config: Config, composition?: Composition) => Promise<Supervisor>
  readonly loadConfig: (sources: Sources) => Config
  /** Throws when a program cannot start. It is called before anything is created. */
  readonly requireProgram: (argv: readonly string[], env: Readonly<Record<string, string>>, cwd: string) => void
  /** Connects this terminal to that of an agent, until the user detaches. */
  readonly attach: (config: Config, agent: Agent) => Promise<number>
  /** The names of all providers, installed or not. */
  readonly providers: () => Promise<readonly string[]>
  /** The program of each provider that users install, and its path on the PATH. */
  readonly programs: (config: Config) => Promise<readonly InstalledProgram[]>
  /** Finds and ends what agent runs that Ebb did not start have left on this machine. */
  readonly leftovers: (config: Config) => Promise<Leftovers>
  readonly clock: Clock
  readonly placementTable: PlacementTable
  readonly inherited: Inherited
  /** The package.json, which holds the version. */
  readonly manifest: string
  /** The folder with the built dashboard. */
  readonly dashboard: string
}

/** How agents call a server of this process, once it listens. */
export function callbackTo(server: RunningServer | undefined, { manifest }: Pick<Wiring, 'manifest'>): Callback | undefined {
  return server && { url: server.url, command: join(dirname(manifest), 'bin', 'ebb') }
}

/** Properties that this process inherited from its parent, and that Node does not pass on to its children by itself. */
export interface Inherited {
  /** File descriptors that were open besides stdio. They are passed to the command. */
  readonly descriptors: readonly number[]
  /** Signals that were ignored at the start, by nohup or a shell. Ebb and the command keep ignoring them. */
  readonly ignored: readonly NodeJS.Signals[]
  /** Keeps the code that this run has compiled for the next start (bin/start.cjs). Undefined when it is kept already. */
  readonly keepCode?: () => void
}

export interface InstalledProgram {
  readonly type: string
  readonly program: string
  readonly path: string | null
}

/** Options of every command. */
export const commonOptions = ['home', 'logLevel'] as const

/** Options of the commands that talk to a server. */
export const serverOptions = [...commonOptions, 'url', 'token'] as const

/** Options of the commands that supervise agents for others. */
export const supervising = [
  'containment',
  'exitGiveUp',
  'maxAgents',
  'taskConcurrent',
  'taskAgents',
  'taskDepth',
  'spawnRule',
  'stuckThreshold',
  'stuckAction',
  'minFree',
  'limitLog',
  'limitMessages',
  'agentTimeout',
  'idleTimeout',
  'reaperInterval',
  'reaperMinimumAge',
] as const

export const oneAgent: Words = { names: ['the ID of an agent'], most: 1, offers: () => 'agents' }
export const someAgents: Words = { ...oneAgent, most: Number.POSITIVE_INFINITY }
