import type { AgentError } from '../model/agent.ts'
import type { Child, Command, Exit, Stdio } from './effects.ts'
import type { RunnerOrder } from './runner.ts'
import type { TracePlace } from './temp.ts'

/** Types that placements, the process-tree and log kinds, and launching code share. */

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
  /** The name for display. */
  readonly name?: string
  /** A file that the program reads. It is removed with the agent. */
  readonly config?: { readonly name: string; readonly text: string }
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** `inherit` passes on this process's streams unchanged. `logs` writes each stream to a file of its own. `ignore` drops both. */
  readonly output: 'inherit' | 'logs' | 'ignore'
  /** `text` is the complete input. */
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

/** The labels of a process launch's resources in its plan. */
export const treeLabel = 'tree'
export const sessionLabel = 'session'
/** Logs that the supervisor writes about an agent. */
export const reportLabels = ['progress', 'findings'] as const
export const logLabels = ['stdout', 'stderr'] as const

/** A process tree in the ledger: enough to find it again, and nothing that could be secret. */
export interface TreeSpec extends TreePlace {
  readonly containment: ContainmentName
  readonly installation: string
  /** The program's name, for display. */
  readonly program: string
  /** The signal that asks the main process to exit, where its provider names one. */
  readonly politeSignal?: NodeJS.Signals
  /** The tree outlives its supervisor. */
  readonly isKept?: boolean
}

/** Input of a tree's start that is not in the spec. Only in memory. */
export interface TreeLaunch {
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** A stream may be a log of the same plan, by its label. */
  readonly stdio: readonly (Stdio | { readonly log: string } | { readonly text: string; readonly directory: string })[]
  readonly ignoredSignals?: readonly NodeJS.Signals[]
  readonly limits?: Limits
  /** Starts the tree in a session of its own. */
  readonly detached: boolean
  /** Starts the tree in a terminal of the same plan, by its label, with this file as its standard input. */
  readonly terminal?: { readonly label: string; readonly stdin: string }
}

/** Starts a tree that is not a child of Ebb: in the pane of a tmux session. */
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

export interface SessionSpec {
  readonly installation: string
  readonly socket: string
  /** The folder with the pipes of the session and its exit code. */
  readonly directory: string
  /** The session's name, for display. */
  readonly session: string
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
  /** `code` and `signal` are both null when the exit is unknown. */
  readonly exit: Promise<EndOfTree>
}

/** An agent on another host may report an error. Then it has failed, whatever its exit code is. */
export interface EndOfTree extends Exit {
  readonly error?: AgentError
}

export interface LocalTreeHandle extends TreeHandle {
  readonly pid: number
  /** Signals the main process. Does nothing when it is gone, also when another process has its pid by now (G10). */
  signal(signal: NodeJS.Signals): void
}

/**
 * Which process writes a log: a collector that Ebb starts; a collector in the agent's terminal, which also shows the output there; the
 * supervisor, line by line; or the follower of an output on another host, which copies it byte for byte, so that the size of the log is the
 * position in the output.
 */
export type LogWriter = 'collector' | 'terminal' | 'supervisor' | 'follower'

export interface LogSpec {
  readonly installation: string
  /** The folder of live logs. */
  readonly directory: string
  /** The path of the log after it is complete. */
  readonly archive: string
  /** The agent's stream. `stdout` and `stderr` are read as messages. Default: the name of the archive. */
  readonly stream?: string
  readonly writer?: LogWriter
  /** For a log in a workspace, where other programs read it: the workspace, and the paths of log and archive in it. */
  readonly inside?: { readonly workspace: string; readonly path: string; readonly archive: string }
}

export interface LogHandle {
  /** The path of the live log. */
  readonly path: string
  readonly archive: string
  /** The write end of the pipe, for the agent. Undefined when the collector runs in a terminal. */
  readonly fd?: number
  /** For a collector in a terminal: the pipe it reads, and the environment tag it must carry. */
  readonly pipe?: { readonly path: string; readonly environmentTag: string }
  /** Tells the kind the pid of the collector in a terminal, so that it need not search for it. */
  collectedBy?(pid: number): void
  /**
   * Appends one line, and creates the file with the first one. Only for logs that the supervisor writes. Throws once the log is being
   * closed, and when the file would become larger than `mostBytes`.
   */
  readonly append?: (line: string, mostBytes?: number) => void
  /** Called when the agent has the pipe. Closes our end, or removes the pipe's name, so that the stream ends with the agent. */
  done(): void
}
