import type { Config } from './config/config.ts'
import type { Home } from './config/home.ts'
import type { ServerFile } from './config/server-file.ts'
import type { Control } from './control.ts'
import type { Engine } from './core/engine/api.ts'
import type { AgentStore } from './core/ports/agents.ts'
import type { Archives } from './core/ports/archives.ts'
import type { Planned } from './core/ports/kind.ts'
import type { Log } from './core/ports/log.ts'
import type { OtherHost, SettingCheck } from './core/ports/placement.ts'
import type { ContainmentName, ProcessLaunch, TreeMember } from './core/ports/process.ts'
import type { Runtime } from './core/ports/runtime.ts'
import type { Availability } from './host/containment/detect.ts'
import type { Callback } from './tasks/types.ts'

/** The parts of a process that supervises agents. `main.ts` composes them. */

export interface Supervisor extends Runtime {
  readonly config: Config
  readonly home: Home
  readonly engine: Engine
  readonly containment: ContainmentName
  /** The placements that can be used with the current settings and the installed programs. */
  readonly placements: readonly string[]
  /** The ordered plan of intents for a process. Throws when the process cannot start; nothing exists at that point. */
  plan(scopeId: string, launch: ProcessLaunch): readonly Planned[]
  /** What a command gets when its name is that of an agent program: a temp folder, and the places to search for its tool leftovers. */
  asAgent(argv: readonly string[], env: Readonly<Record<string, string>>): Promise<Pick<ProcessLaunch, 'hasTempFolder' | 'leaves'>>
  readonly availability: readonly Availability[]
  /** Tries out the settings of all placements, with calls that change nothing. */
  checkSettings(): Promise<readonly SettingCheck[]>
  /** Observes the other hosts on which agents of this server run. */
  otherHosts(): Promise<readonly OtherHost[]>
  /** The file by which other commands find the server of this process. */
  readonly serverFile: { write(content: ServerFile): void; remove(): void }
  /** The rows of all agents, of this and of other supervisors. */
  readonly agents: AgentStore
  /** The logs of agents that have ended. */
  readonly archives: Archives
  /** Sentences about broken parts of this process, such as a lost sentinel. */
  problems(): readonly string[]
  /** The control plane over this engine. It is loaded only when agents are used. */
  control(): Promise<Control>
  /** Kills every process of this supervisor. For exit handlers, which cannot await; the sentinel updates the ledger afterwards. */
  killAllNow(): void
  /** The living processes of this installation, as observed in the system. */
  runningProcesses(): Promise<readonly TreeMember[]>
  /** Closes the database. Nothing else that was opened needs to be closed. */
  close(): Promise<void>
}

export interface Composition {
  /** False starts no sentinel. A recovery creates nothing, so it needs none. */
  readonly watched?: boolean
  /** Receives the log lines of a server. The default writes lines to standard error. */
  readonly log?: Log
  /** Called when an observation of a resource of this kind failed. */
  readonly onUnknown?: (kind: string) => void
  readonly onLogBytes?: (what: 'archived' | 'freed', bytes: number) => void
  /** True keeps agents in tmux and in containers running when this process is lost. The next server adopts them. */
  readonly keepsSessions?: boolean
  /** How agents of tasks call the server of this process. Undefined until it listens. Default: there is no server. */
  readonly callback?: () => Callback | undefined
  /** Wraps a port before it is used. The crash matrix and the fault tests use it. */
  readonly wrap?: <T extends object>(name: string, port: T) => T
}
