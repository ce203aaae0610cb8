import { type Label, label } from './handles.ts'
import { kindName } from './kind.ts'

/** Types that plans, the kind of logs, and the readers of logs share. */

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

export const logKind = kindName<{ spec: LogSpec; handle: LogHandle }>('log')

/** The label of a log in a plan is the name of its stream. */
export function logLabel(stream: string): Label<LogHandle> {
  return label<LogHandle>(stream)
}

export const logLabels = [logLabel('stdout'), logLabel('stderr')] as const
/** The streams of logs that the supervisor writes about an agent. */
export const reportStreams = ['progress', 'findings'] as const
