import type { Exit, Stdio } from './effects.ts'

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

/** A process on this host, as those who launch describe it. */
export interface ProcessLaunch {
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** `inherit` passes ours through untouched; `logs` writes each stream to a file of its own. */
  readonly output: 'inherit' | 'logs'
  /** A text is all there is to read. */
  readonly stdin: 'inherit' | 'ignore' | { readonly text: string }
  /** Further open descriptors that keep their numbers. */
  readonly descriptors?: readonly number[]
  readonly limits?: Limits
  readonly politeSignal?: NodeJS.Signals
}

/** What the resources of a process launch are called in its plan. */
export const treeLabel = 'tree'
export const logLabels = ['stdout', 'stderr'] as const

/** What the ledger holds of a tree: enough to find it again, and nothing that could be a secret. */
export interface TreeSpec extends TreePlace {
  readonly containment: ContainmentName
  readonly installation: string
  /** The program's name, for people. */
  readonly program: string
  /** The signal that asks the main process to leave, where its provider knows one. */
  readonly politeSignal?: NodeJS.Signals
}

/** What starting a tree takes; in memory only. */
export interface TreeLaunch {
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** A stream may be a log of the same plan, by its label. */
  readonly stdio: readonly (Stdio | { readonly log: string } | { readonly text: string; readonly directory: string })[]
  readonly limits?: Limits
  /** A session of its own. */
  readonly detached: boolean
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

export interface TreeHandle {
  readonly pid: number
  readonly exit: Promise<Exit>
}

/**
 * Who writes a log: a collector that we start ourselves, a collector that runs in the agent's terminal and shows there
 * what it writes, or this supervisor, line by line.
 */
export type LogWriter = 'collector' | 'terminal' | 'supervisor'

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
  readonly pipe?: { readonly path: string; readonly cookie: string }
  /** The agent has it; ours is closed, or its name removed, so that the end of the agent is the end of the stream. */
  done(): void
}
