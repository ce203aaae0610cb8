import { label } from '../../core/ports/handles.ts'
import { kindName } from '../../core/ports/kind.ts'
import type { TreeHandle } from '../../core/ports/process.ts'

/** The Docker daemon, as the placement `docker` uses it. `Docker` changes something there; `DockerQueries` only reads. */

/** Everything needed to create a container, including secrets, which the ledger may not hold. */
export interface ContainerOrder {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly image: string
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly mounts: readonly ContainerMount[]
  readonly workingDirectory?: string
  readonly user?: string
  readonly network?: string
  readonly memoryBytes?: number
  readonly pids?: number
  readonly cpus?: number
}

export interface ContainerMount {
  readonly source: string
  readonly target: string
  readonly isReadOnly: boolean
}

/** Every call that changes something, one method each, so that the crash matrix can end the process around each of them (G9). */
export interface Docker {
  /** Creates a container. Returns the daemon's own id of the container, which the daemon never uses twice. */
  create(order: ContainerOrder): Promise<string>
  /** Starts the container and sends the input to its standard input. Throws `scope_closed` when the signal has aborted before. */
  start(id: string, input: string, signal: AbortSignal): Promise<InputTransfer>
  signal(id: string, signal: NodeJS.Signals): Promise<void>
  unpause(id: string): Promise<void>
  /** Overrides any restart policy, so that the daemon does not start the container again. */
  forbidRestart(id: string): Promise<void>
  /** Removes the container with its processes and its anonymous volumes. False when the daemon did not confirm it. */
  remove(id: string): Promise<boolean>
}

/** Input that is being sent. The container may read it later, as from a pipe. */
export interface InputTransfer {
  /** Settles when the daemon has all of the input, or the container can no longer read it. */
  readonly done: Promise<void>
}

/** A container in the daemon's list. */
export interface SeenContainer {
  readonly id: string
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  /** The state that the daemon reports: `created`, `running`, `paused`, `restarting`, `removing`, `exited` or `dead`. */
  readonly state: string
}

export interface InspectedContainer extends SeenContainer {
  /** The pid of the main process, in the daemon's pid namespace. Undefined when nothing runs. */
  readonly pid: number | undefined
  /** The exit code of the last run. Undefined before the first run. */
  readonly exitCode: number | undefined
  readonly restartPolicy: string
  /** The OCI runtime, such as `runc`. */
  readonly runtime: string
}

export type OutputStream = 'stdout' | 'stderr'

export interface OutputPiece {
  readonly stream: OutputStream
  readonly bytes: Uint8Array
}

/** Queries that change nothing. Each of them fails when the daemon does not answer, and the state is then unknown (G4). */
export interface DockerQueries {
  /** True when the daemon is reached through a socket of this host. */
  readonly isLocal: boolean
  /** The daemon's address, for display. */
  readonly host: string
  /** Identifies the daemon across its restarts. Undefined when it has no id. */
  identity(signal?: AbortSignal): Promise<string | undefined>
  /** The daemon's version. */
  version(): Promise<string>
  hasImage(image: string): Promise<boolean>
  hasNetwork(network: string): Promise<boolean>
  /** Inspects a container. Undefined when the daemon answers that there is none. The call waits while the daemon is busy with it. */
  inspect(id: string, signal?: AbortSignal): Promise<InspectedContainer | undefined>
  /** Lists all containers with the given labels, newest first, stopped ones included. Does not wait for busy containers. */
  list(labels: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<readonly SeenContainer[]>
  /**
   * True when no container has this name, and the daemon is not creating one with it. The daemon reserves a name before it lists the
   * container.
   */
  isNameFree(name: string, signal?: AbortSignal): Promise<boolean>
  /**
   * Everything the container has written on both streams, or on the given ones. With `follows`, also what it writes later, until it ends.
   */
  output(id: string, follows: boolean, signal: AbortSignal, streams?: readonly OutputStream[]): AsyncIterable<OutputPiece>
  /**
   * Resolves with the exit code of the next exit. `onRegistered` is called once the daemon has registered the wait: from then on no exit is
   * missed.
   */
  nextExit(id: string, signal: AbortSignal, onRegistered: () => void): Promise<number>
  /** Settles when nothing runs in the container, or it does not exist. */
  stopped(id: string, signal: AbortSignal): Promise<void>
  /** Settles when the container does not exist any more. */
  removed(id: string, signal: AbortSignal): Promise<void>
  /** The pids of all processes in the container, in the daemon's pid namespace. */
  pids(id: string): Promise<readonly number[]>
}

/** The labels that mark a container of Ebb, whatever its name is. */
export const containerLabels = {
  installation: 'ebb.installation',
  incarnation: 'ebb.incarnation',
  scope: 'ebb.scope',
  resource: 'ebb.resource',
} as const

/** A container in the ledger: enough to find it again, and nothing that could be secret. */
export interface ContainerSpec {
  readonly installation: string
  readonly image: string
  /** How much the container may write on each stream. The excess is not stored. */
  readonly mostBytes?: number
}

/** The part of a container's order that is not in the spec. It is kept only in memory, because it may contain secrets. */
export type ContainerLive = Omit<ContainerOrder, 'name' | 'labels' | 'image'>

/** The files to which the output is copied. */
export type OutputPaths = Readonly<Record<OutputStream, string>>

export interface ContainerHandle {
  readonly id: string
  readonly paths: OutputPaths | undefined
  readonly mostBytes: number
  /** The daemon that created the container. */
  readonly daemon: DaemonMark | undefined
}

/** What the ledger records before the container is ordered. From then on the container may exist. */
export interface ContainerDetail {
  readonly paths?: OutputPaths
  readonly daemon?: DaemonMark
  /** The id that the daemon assigned. Absent until the daemon has answered. */
  readonly id?: string
}

export const containerKind = kindName<{ spec: ContainerSpec; live: ContainerLive; detail: ContainerDetail; handle: ContainerHandle }>(
  'container',
)

export const containerLabel = label<ContainerHandle>('container')

/** Identifies a daemon. A container that another daemon does not know may still exist. */
export interface DaemonMark {
  readonly identity: string
  /** The address of the daemon when it created the container, for display. */
  readonly host: string
}

export interface ContainerRunSpec {
  readonly installation: string
  /** The program's name, for display. */
  readonly program: string
  readonly politeSignal?: NodeJS.Signals
}

/** The part of a container's start that is not in the spec. It is kept only in memory. */
export interface ContainerRunLive {
  readonly input: string
}

/** What the ledger records before the start, and once the container runs. */
export interface ContainerRunDetail {
  /** The container's id. */
  readonly id?: string
  readonly daemon?: DaemonMark
  /** The pid of the main process, when it is on this host. */
  readonly pid?: number
  /** True while a part of the input is only in the memory of the supervisor. That part is lost when the supervisor is lost. */
  readonly isBeingTold?: boolean
}

export const containerRunKind = kindName<{
  spec: ContainerRunSpec
  live: ContainerRunLive
  detail: ContainerRunDetail
  handle: TreeHandle
}>('container-run')
