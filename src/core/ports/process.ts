import type { AgentError } from '../model/agent.ts'
import type { Child, Command, Exit, Stdio } from './effects.ts'
import type { RunnerOrder } from './runner.ts'
import type { TracePlace } from './temp.ts'

/** What a placement, the process-tree and log kinds, and those who launched have to agree on. */

/** How strongly a process tree is held, strongest first. */
export const containmentNames = ['cgroup', 'subreaper', 'scan'] as const
export type ContainmentName = (typeof containmentNames)[number]

export interface Limits {
  readonly memoryBytes?: number
  readonly pids?: number
}

/** Where a containment puts its trees: prefixes to which a resource's id is added. */
export interface TreePlace {
  readonly place: string
  readonly limitPlaces?: readonly string[]
}

/** The workspace of an agent's task, and what the agent is called there. */
export interface AgentWorkspace {
  /** The folder that must not be left, and the path of the workspace in it. */
  readonly base: string
  readonly path: string
  readonly agentName: string
}

/** An agent as those who launch describe it: a process on this host, or the same elsewhere. */
export interface ProcessLaunch {
  readonly placement?: string
  /** Where it has its prompt and its logs, if others look for them. */
  readonly workspace?: AgentWorkspace
  /** As people call it. */
  readonly name?: string
  /** A file that its program reads; gone when it is. */
  readonly config?: { readonly name: string; readonly text: string }
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** `inherit` passes ours through untouched; `logs` writes each stream to a file of its own. */
  readonly output: 'inherit' | 'logs'
  /** A text is all there is to read. */
  readonly stdin: 'inherit' | 'ignore' | { readonly text: string }
  /** Further open descriptors that keep their numbers. */
  readonly descriptors?: readonly number[]
  /** It starts with these ignored, and else with none. */
  readonly ignoredSignals?: readonly NodeJS.Signals[]
  readonly limits?: Limits
  readonly politeSignal?: NodeJS.Signals
  /** Its TMPDIR is a folder of its own, which goes with it. */
  readonly hasTempFolder?: boolean
  /** What its program leaves elsewhere when it is killed. */
  readonly leaves?: readonly TracePlace[]
  /** The same in words that do not depend on this host, for a runner elsewhere. */
  readonly order?: RunnerOrder
  /** What was asked for on top of the environment that agents inherit here. */
  readonly ownEnv?: Readonly<Record<string, string>>
  /** Where it was asked to work; `cwd` is where a process on this host would. */
  readonly workingDirectory?: string
}

/** What the resources of a process launch are called in its plan. */
export const treeLabel = 'tree'
export const sessionLabel = 'session'
/** Logs that this supervisor writes about an agent. */
export const reportLabels = ['progress', 'findings'] as const
export const logLabels = ['stdout', 'stderr'] as const

/** What the ledger holds of a tree: enough to find it again, and nothing that could be a secret. */
export interface TreeSpec extends TreePlace {
  readonly containment: ContainmentName
  readonly installation: string
  /** The program's name, for people. */
  readonly program: string
  /** The signal that asks the main process to leave, where its provider knows one. */
  readonly politeSignal?: NodeJS.Signals
  /** It outlives a supervisor that is lost. */
  readonly isKept?: boolean
}

/** What starting a tree takes; in memory only. */
export interface TreeLaunch {
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** A stream may be a log of the same plan, by its label. */
  readonly stdio: readonly (Stdio | { readonly log: string } | { readonly text: string; readonly directory: string })[]
  readonly ignoredSignals?: readonly NodeJS.Signals[]
  readonly limits?: Limits
  /** A session of its own. */
  readonly detached: boolean
  /** Started in a terminal of the same plan, by its label, reading what is in this file. */
  readonly terminal?: { readonly label: string; readonly stdin: string }
}

/** Where a tree is started that is no child of ours: the pane of a tmux session. */
export interface Terminal {
  /** The command as it says, once it is behind its doors, which pid it has. */
  announced(argv: readonly string[]): readonly string[]
  /** Settles when it runs; rejects when it has ended by then, and has nothing to show for it. */
  start(command: Command, streams: { readonly stdin: string; readonly stdout: LogHandle; readonly stderr: LogHandle }): Promise<Child>
}

/** The pane, for those who launched it or found it again. */
export interface SessionHandle extends Terminal {
  /** Rejects when what was started has ended by now, and has nothing to show for it. */
  requireGoodStart(): Promise<void>
  readonly exit: Promise<Exit>
  /** The session was ended from outside, and its agent may live on. */
  readonly lost: Promise<void>
}

export interface SessionSpec {
  readonly installation: string
  readonly socket: string
  /** The folder of its pipes and its exit code. */
  readonly directory: string
  /** Its name, for people. */
  readonly session: string
}

/** A living process that stands in a tree of this installation, or carries its mark. */
export interface TreeMember {
  readonly pid: number
  readonly resourceId: string
  readonly incarnation: string
}

/** What people want to know of a living process. */
export interface ProcessDetails {
  readonly pid: number
  readonly ppid: number
  readonly command: string
  readonly startedAt: string
  readonly rssBytes: number
}

/** What runs of an agent, whatever it is: a process tree, a container, an agent of a runner elsewhere. */
export interface TreeHandle {
  /** Of its main process, where that is on this host. */
  readonly pid?: number
  /** `code` and `signal` are both null when nobody saw how it ended. */
  readonly exit: Promise<EndOfTree>
}

/** Where it ran elsewhere, whoever ran it may say what was the matter: then it has failed, whatever its exit code. */
export interface EndOfTree extends Exit {
  readonly error?: AgentError
}

export interface LocalTreeHandle extends TreeHandle {
  readonly pid: number
}

/**
 * Who writes a log: a collector that we start ourselves, a collector that runs in the agent's terminal and shows there
 * what it writes, this supervisor, line by line, or whoever follows an output that is elsewhere: its copy, byte for byte,
 * so that its size says how far it has come.
 */
export type LogWriter = 'collector' | 'terminal' | 'supervisor' | 'follower'

export interface LogSpec {
  readonly installation: string
  /** The folder of live logs. */
  readonly directory: string
  /** Where the log goes when it is complete. */
  readonly archive: string
  /** Which stream of the agent it is; `stdout` and `stderr` are read as messages. Without it: as the archive is called. */
  readonly stream?: string
  readonly writer?: LogWriter
  /** For a log that others look for: the workspace it lies in, and its path and that of its archive in there. */
  readonly inside?: { readonly workspace: string; readonly path: string; readonly archive: string }
}

export interface LogHandle {
  /** The live log. */
  readonly path: string
  readonly archive: string
  /** The writing end of the pipe, for the agent; there is none where the collector runs in a terminal. */
  readonly fd?: number
  /** Where the collector in a terminal is to read, and the mark that it must carry. */
  readonly pipe?: { readonly path: string; readonly environmentTag: string }
  /** The collector in a terminal has this pid; who knows it need not search for it. */
  collectedBy?(pid: number): void
  /**
   * Where this supervisor writes: one line, and the file with the first of them. Refused once the log is being closed, and
   * where it would have more bytes than these.
   */
  readonly append?: (line: string, mostBytes?: number) => void
  /** The agent has it; ours is closed, or its name removed, so that the end of the agent is the end of the stream. */
  done(): void
}
