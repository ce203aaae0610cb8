import type { AgentError } from '../model/agent.ts'
import type { LogHandle } from './agent-log.ts'
import type { Child, Command, Exit, Stdio } from './effects.ts'
import { type Label, label } from './handles.ts'
import { kindName } from './kind.ts'
import type { TracePlace } from './provider.ts'
import type { RunnerOrder } from './runner.ts'

/** Types that placements, the kind of process trees, and launching code share. */

/** Ways to contain a process tree, strongest first. */
export const containmentNames = ['cgroup', 'subreaper', 'scan'] as const
export type ContainmentName = (typeof containmentNames)[number]

export interface Limits {
  readonly memoryBytes?: number
  readonly pids?: number
}

/** Where a containment puts its trees: path prefixes, to which the resource's id is added. */
export interface TreePlace {
  readonly place: string
  readonly limitPlaces?: readonly string[]
}

/** The workspace of an agent's task, and the agent's name in it. */
export interface AgentWorkspace {
  /** The folder that contains the workspace, and the workspace's path relative to it. Nothing outside `base` is touched. */
  readonly base: string
  readonly path: string
  readonly agentName: string
}

/** A launch, independent of the placement: a process on this host, or the same on another one. */
export interface ProcessLaunch {
  readonly placement?: string
  /** The workspace with the prompt and the logs, when other programs read them there. */
  readonly workspace?: AgentWorkspace
  /** The display name of the launched process or agent. */
  readonly name?: string
  /** A file that the program reads. It is removed with the agent. */
  readonly config?: { readonly name: string; readonly text: string }
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /**
   * Where the output goes. `inherit` passes on this process's streams unchanged. `logs` writes each stream to a file of its own. `ignore`
   * drops both.
   */
  readonly output: 'inherit' | 'logs' | 'ignore'
  /** Where the standard input comes from. `text` is the complete input. */
  readonly stdin: 'inherit' | 'ignore' | { readonly text: string }
  /** Further open descriptors, passed on under the same numbers. */
  readonly descriptors?: readonly number[]
  /** Signals that the process ignores at its start. It ignores no others. */
  readonly ignoredSignals?: readonly NodeJS.Signals[]
  readonly limits?: Limits
  readonly politeSignal?: NodeJS.Signals
  /** Gives the agent a TMPDIR of its own, which is removed with it. */
  readonly hasTempFolder?: boolean
  /** Files that the program leaves in folders of the user when it is killed. */
  readonly leaves?: readonly TracePlace[]
  /** The same launch in terms that do not depend on this host, for a runner on another host. */
  readonly order?: RunnerOrder
  /** The requested variables, without those that agents inherit on this host. */
  readonly ownEnv?: Readonly<Record<string, string>>
  /** The requested working directory. `cwd` is the one that a process on this host gets. */
  readonly workingDirectory?: string
}

/** The label of the running agent in a plan: a process tree, a container, or an agent at a runner. */
export const treeLabel = label<TreeHandle>('tree')
export const sessionLabel = label<SessionHandle>('session')

/** A process tree in the ledger: enough to find it again, and nothing that could be secret. */
export interface TreeSpec extends TreePlace {
  readonly containment: ContainmentName
  readonly installation: string
  /** The program's name, for display. */
  readonly program: string
  /** The signal that asks the main process to exit, where its provider names one. */
  readonly politeSignal?: NodeJS.Signals
  /** True when the tree outlives its supervisor. */
  readonly isKept?: boolean
}

/** The main process of a tree, recorded at its creation. */
export interface TreeDetail {
  readonly pid: number
  readonly startTime: string
}

/** Input of a tree's start that is not in the spec. Only in memory. */
export interface TreeLaunch {
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** The standard input. A text is written to a file without a name in `directory`, or to a pipe. */
  readonly stdin: Stdio | { readonly text: string; readonly directory: string }
  /** Standard output, standard error and further streams. A stream may be a log of the same plan, by its label. */
  readonly streams: readonly (Stdio | { readonly log: Label<LogHandle> })[]
  readonly ignoredSignals?: readonly NodeJS.Signals[]
  readonly limits?: Limits
  /** Starts the tree in a session of its own. */
  readonly detached: boolean
  /** Starts the tree in a terminal of the same plan, with this file as its standard input, and with these logs of the plan. */
  readonly terminal?: {
    readonly label: Label<Terminal>
    readonly stdin: string
    readonly stdout: Label<LogHandle>
    readonly stderr: Label<LogHandle>
  }
}

export const processTreeKind = kindName<{ spec: TreeSpec; live: TreeLaunch; detail: TreeDetail; handle: TreeHandle }>('process-tree')

/** Starts a tree that is not a child of Ebb: in a terminal of its placement. */
export interface Terminal {
  /** Wraps a command so that its process reports its pid, once the process is in its containment. */
  announced(argv: readonly string[]): readonly string[]
  /** Settles when the command runs. Rejects when it ends at once with an error, or without output. */
  start(command: Command, streams: { readonly stdin: string; readonly stdout: LogHandle; readonly stderr: LogHandle }): Promise<Child>
}

/** The pane of a session, for the process that launched it or found it again. */
export interface SessionHandle extends Terminal {
  /** Rejects when the command has ended by now with an error, or without output. */
  requireGoodStart(): Promise<void>
  readonly exit: Promise<Exit>
  /** Settles when the session was ended from outside. The agent may still be alive. */
  readonly lost: Promise<void>
}

/** A running process in a tree of this installation, or with its tag. */
export interface TreeMember {
  readonly pid: number
  readonly resourceId: string
  readonly incarnation: string
}

/** A running process, for display. */
export interface ProcessDetails {
  readonly pid: number
  readonly ppid: number
  readonly command: string
  readonly startedAt: string
  readonly rssBytes: number
}

/** A running agent of any placement: a process tree, a container, or an agent at a runner. */
export interface TreeHandle {
  /** The pid of the main process, when it is on this host. */
  readonly pid?: number
  /**
   * Signals the main process, when it is on this host. Does nothing when it is gone, also when another process has its pid by now (G10).
   */
  signal?(signal: NodeJS.Signals): void
  /** `code` and `signal` are both null when the exit is unknown. */
  readonly exit: Promise<EndOfTree>
}

/** An agent on another host may report an error. Then it has failed, whatever its exit code is. */
export interface EndOfTree extends Exit {
  readonly error?: AgentError
}
