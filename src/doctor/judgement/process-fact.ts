import type { AgentProgram, Recognised } from './agent-program.ts'
import type { ProcessName } from './leftover.ts'

/** One process as read from `/proc`. A value that could not be read is undefined or `unknown`, never a guess (G4). */
export interface ProcessFact extends ProcessName {
  readonly ppid: number
  readonly pgid: number
  readonly sid: number
  /** The device number of the process's controlling terminal; 0 without a terminal. The kernel sets 0 when the terminal is closed. */
  readonly tty: number
  readonly uid: number
  readonly command: string
  readonly argv: readonly string[]
  readonly memoryBytes: number
  readonly startedAtMs: number
}

/** Whether a process outside of the leftover has the other end of a stream. */
export type OtherEnd = 'none' | 'living' | 'unknown'

export type StreamFact =
  | { readonly is: 'null' | 'closed' | 'other' | 'unknown' }
  /** Any process can open a named pipe by its name, so its `others` is never `none`. */
  | { readonly is: 'pipe' | 'named pipe' | 'socket'; readonly others: OtherEnd }
  | { readonly is: 'terminal'; readonly isDeleted: boolean }
  /** `isAgents`: the file is in a folder where an agent keeps the output of its tools. */
  | { readonly is: 'file'; readonly path: string; readonly isDeleted: boolean; readonly isAgents: boolean }

export interface Streams {
  readonly stdin: StreamFact
  readonly stdout: StreamFact
  readonly stderr: StreamFact
}

/** The agent or MCP server that an orphaned wrapper, such as `sh -c`, has started. */
export interface InnerFact {
  readonly known: Recognised
  /** The streams of the recognised process, and of every process between the orphan and the recognised process. */
  readonly streams: readonly Streams[]
  /** Other commands that the wrapper has started. */
  readonly beside: readonly string[]
}

/** The details of a suspect, in addition to `ProcessFact`. */
export interface ProcessDetail extends Streams {
  readonly exe: string | undefined
  readonly cwd: string | undefined
  readonly environ: readonly string[] | undefined
  readonly cgroups: string | undefined
  /** Whether the suspect is in the pid namespace of the doctor. Undefined when its namespace could not be read. */
  readonly isInOurPidNamespace: boolean | undefined
  readonly inner: InnerFact | undefined
  /** Whether the suspect or a descendant listens on a socket; undefined when their descriptors could not be read. */
  readonly listens: boolean | undefined
  readonly isConnectedTo: boolean | undefined
  /** Whether the suspect or a descendant has opened a network connection. */
  readonly talks: boolean | undefined
  /** Whether a tool or one of its descendants has a window on a display. */
  readonly isOnDisplay: boolean
  /** Whether a process of an Ebb runs below the suspect. */
  readonly hasEbbBelow: boolean
}

export interface LivingAgent extends ProcessName {
  readonly program: AgentProgram | string
}

/** The input of a judgement besides the process itself. */
export interface ProcessScene {
  readonly table: ReadonlyMap<number, ProcessFact>
  readonly children: ReadonlyMap<number, readonly ProcessFact[]>
  readonly agents: readonly LivingAgent[]
  readonly uid: number
  /** The pids of the doctor and of its ancestors. */
  readonly family: ReadonlySet<number>
  /** False in a container: the reader of a pipe may be outside of it, and not visible. */
  readonly seesAll: boolean
  readonly nowMs: number
}

/** Returns the process and all its descendants. */
export function familyOf(root: ProcessFact, children: ProcessScene['children']): readonly ProcessFact[] {
  const found = new Map([[root.pid, root]])
  // Iterating a Map also visits the entries that are added meanwhile.
  for (const [pid] of found) for (const child of children.get(pid) ?? []) if (!found.has(child.pid)) found.set(child.pid, child)
  return [...found.values()]
}

export function childrenIn(table: Iterable<ProcessFact>): ReadonlyMap<number, readonly ProcessFact[]> {
  return Map.groupBy(table, ({ ppid }) => ppid)
}
