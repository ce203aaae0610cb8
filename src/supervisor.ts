import type { Config } from './config/config.ts'
import type { Home } from './config/home.ts'
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

/** What a process that supervises agents consists of. `main.ts` composes it. */

export interface Supervisor extends Runtime {
  readonly config: Config
  readonly home: Home
  readonly engine: Engine
  readonly containment: ContainmentName
  /** Where agents can be launched with the settings and programs that there are. */
  readonly placements: readonly string[]
  /** The ordered plan of intents for a process; throws, and nothing exists yet, when it cannot start. */
  plan(scopeId: string, launch: ProcessLaunch): readonly Planned[]
  /** What a command is given because it is an agent's program, by its name: a temp folder, and a look at what it leaves. */
  asAgent(argv: readonly string[], env: Readonly<Record<string, string>>): Promise<Pick<ProcessLaunch, 'hasTempFolder' | 'leaves'>>
  readonly availability: readonly Availability[]
  /** The settings of what runs elsewhere, tried out with calls that change nothing. */
  checkSettings(): Promise<readonly SettingCheck[]>
  /** The hosts beside this one on which agents of ours run, looked at now. */
  otherHosts(): Promise<readonly OtherHost[]>
  /** The rows of agents, of whichever supervisor. */
  readonly agents: AgentStore
  /** The logs of agents that have ended. */
  readonly archives: Archives
  /** What of our foundations is broken. */
  problems(): readonly string[]
  /** The control plane over this engine; loaded only by those who have agents. */
  control(): Promise<Control>
  /** For exit handlers, which cannot await: every process of ours ends now, and the sentinel does the books. */
  killAllNow(): void
  /** Living processes of this installation, seen in the world. */
  runningProcesses(): Promise<readonly TreeMember[]>
  /** Opens nothing that must be closed but the database. */
  close(): Promise<void>
}

export interface Composition {
  /** A recovery makes nothing, so nothing needs to watch over it. */
  readonly watched?: boolean
  /** Where a server's words go; else lines on standard error. */
  readonly log?: Log
  /** A look at something of this kind brought no answer. */
  readonly onUnknown?: (kind: string) => void
  readonly onLogBytes?: (what: 'archived' | 'freed', bytes: number) => void
  /** Agents in tmux and in containers outlive this process when it is lost: the next server adopts them. */
  readonly keepsSessions?: boolean
  /** Wraps a port before it is used: the crash matrix and the fault tests come in here. */
  readonly wrap?: <T extends object>(name: string, port: T) => T
}
