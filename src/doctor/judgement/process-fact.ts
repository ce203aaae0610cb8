import type { AgentProgram, Recognised } from './agent-program.ts'
import type { ProcessName } from './leftover.ts'

/** What a look at one process saw. What could not be read is undefined or `unknown`, never a guess (G4). */
export interface ProcessFact extends ProcessName {
  readonly ppid: number
  readonly pgid: number
  readonly sid: number
  /** The device of its terminal; 0 without one. The kernel takes it away when the terminal is closed. */
  readonly tty: number
  readonly uid: number
  readonly command: string
  readonly argv: readonly string[]
  readonly memoryBytes: number
  readonly startedAtMs: number
}

/** Whether anybody outside of the leftover itself has the other end. */
export type OtherEnd = 'none' | 'living' | 'unknown'

export type StreamFact =
  | { readonly is: 'null' | 'closed' | 'other' | 'unknown' }
  /** A pipe with a name may be opened by whoever knows it: of that, nobody can say that it has no other end. */
  | { readonly is: 'pipe' | 'named pipe' | 'socket'; readonly others: OtherEnd }
  | { readonly is: 'terminal'; readonly isDeleted: boolean }
  /** `isAgents`: in a folder where an agent keeps the output of its tools. */
  | { readonly is: 'file'; readonly path: string; readonly isDeleted: boolean; readonly isAgents: boolean }

export interface Streams {
  readonly stdin: StreamFact
  readonly stdout: StreamFact
  readonly stderr: StreamFact
}

/** What is known of the agent or MCP server that an orphaned wrapper, such as `sh -c`, has started. */
export interface InnerFact {
  readonly known: Recognised
  /** Of everybody between the orphan and it, and its own. */
  readonly streams: readonly Streams[]
  /** Others that the wrapper has started beside it. */
  readonly beside: readonly string[]
}

/** What is read of the few that are looked at closely. */
export interface ProcessDetail extends Streams {
  readonly exe: string | undefined
  readonly cwd: string | undefined
  readonly environ: readonly string[] | undefined
  readonly cgroups: string | undefined
  /** Undefined when it may not be known. */
  readonly isInOurPidNamespace: boolean | undefined
  readonly inner: InnerFact | undefined
  /** Of it and all below it. */
  readonly listens: boolean | undefined
  readonly isConnectedTo: boolean | undefined
  /** Has a connection over the network that it made itself. */
  readonly talks: boolean | undefined
  /** Somebody sees it on a screen. */
  readonly isOnDisplay: boolean
  /** Something of an Ebb runs below it. */
  readonly hasEbbBelow: boolean
}

export interface LivingAgent extends ProcessName {
  readonly program: AgentProgram | string
}

/** All that a judgement looks at besides the process itself. */
export interface ProcessScene {
  readonly table: ReadonlyMap<number, ProcessFact>
  readonly children: ReadonlyMap<number, readonly ProcessFact[]>
  readonly agents: readonly LivingAgent[]
  readonly uid: number
  /** We ourselves, and everybody above us. */
  readonly family: ReadonlySet<number>
  /** In a container, whoever reads a pipe may be outside, where nobody sees it. */
  readonly seesAll: boolean
  readonly nowMs: number
}

/** Itself and everybody below it. */
export function familyOf(root: ProcessFact, children: ProcessScene['children']): readonly ProcessFact[] {
  const found = new Map([[root.pid, root]])
  // A Map that grows while it is walked gives what was added, too.
  for (const [pid] of found) for (const child of children.get(pid) ?? []) if (!found.has(child.pid)) found.set(child.pid, child)
  return [...found.values()]
}

export function childrenIn(table: Iterable<ProcessFact>): ReadonlyMap<number, readonly ProcessFact[]> {
  return Map.groupBy(table, ({ ppid }) => ppid)
}
