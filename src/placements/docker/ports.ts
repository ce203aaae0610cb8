/** What the placement docker needs of a Docker daemon. What changes something there is in one port, what only looks in another. */

/** A container as it is ordered, with all that no ledger may hold. */
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
  /** Answers with the daemon's own id of it, which is never given twice. */
  create(order: ContainerOrder): Promise<string>
  /** Starts it, unless the signal says before that nobody wants it any more, and hands over what it is to read on its standard input. */
  start(id: string, input: string, signal: AbortSignal): Promise<Handing>
  signal(id: string, signal: NodeJS.Signals): Promise<void>
  unpause(id: string): Promise<void>
  /** Whatever anybody has set: the daemon does not start it again. */
  forbidRestart(id: string): Promise<void>
  /** With what runs in it, and the volumes that are its alone. False when the daemon did not say that it has done so. */
  remove(id: string): Promise<boolean>
}

/** An input on its way. Who does not read it all at once may do so later, as from a pipe. */
export interface Handing {
  /** Settles when all of it is in the daemon's hands, or nobody is left to read it. */
  readonly done: Promise<void>
}

/** One container, as the daemon tells of it. */
export interface SeenContainer {
  readonly id: string
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  /** `created`, `running`, `paused`, `restarting`, `removing`, `exited` or `dead`. */
  readonly state: string
}

export interface InspectedContainer extends SeenContainer {
  /** Of its main process, in the daemon's pid namespace; none where nothing runs. */
  readonly pid: number | undefined
  /** Of its last run; none before its first. */
  readonly exitCode: number | undefined
  readonly restartPolicy: string
  /** What runs it, such as `runc`. */
  readonly runtime: string
}

export type OutputStream = 'stdout' | 'stderr'

export interface OutputPiece {
  readonly stream: OutputStream
  readonly bytes: Uint8Array
}

/** Looks that change nothing. All of them fail when the daemon does not answer: then nothing is known (G4). */
export interface DockerQueries {
  /** Does it speak to us through a socket of this host? */
  readonly isLocal: boolean
  /** Where the daemon is looked for, for people. */
  readonly host: string
  /** Which daemon it is, across its restarts; undefined where it has no id. */
  identity(signal?: AbortSignal): Promise<string | undefined>
  /** The version of the daemon. */
  version(): Promise<string>
  hasImage(image: string): Promise<boolean>
  hasNetwork(network: string): Promise<boolean>
  /** Undefined is the daemon's own word that there is none. Waits while the daemon is busy with that container. */
  inspect(id: string, signal?: AbortSignal): Promise<InspectedContainer | undefined>
  /** All that carry these labels, the newest first, also those that do not run. Waits for nothing. */
  list(labels: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<readonly SeenContainer[]>
  /**
   * Nobody has this name, neither a container nor one that the daemon is making and shows to nobody yet: it gives the name away
   * before anything else.
   */
  isNameFree(name: string, signal?: AbortSignal): Promise<boolean>
  /** All that it ever wrote on both streams, or on these, from the first byte on; with `follows` also what it will write, until it ends. */
  output(id: string, follows: boolean, signal: AbortSignal, streams?: readonly OutputStream[]): AsyncIterable<OutputPiece>
  /** The exit code when it ends next; `heard` is called when the daemon has taken note, and no end is missed from then on. */
  nextExit(id: string, signal: AbortSignal, heard: () => void): Promise<number>
  /** Settles when nothing runs in it, or when it is not there. */
  stopped(id: string, signal: AbortSignal): Promise<void>
  /** Settles when there is none any more, whoever removes it. */
  removed(id: string, signal: AbortSignal): Promise<void>
  /** The pids of all that runs in it, in the daemon's pid namespace. */
  pids(id: string): Promise<readonly number[]>
}

/** The labels by which a container is known as ours, whatever it is called. */
export const containerLabels = {
  installation: 'ebb.installation',
  incarnation: 'ebb.incarnation',
  scope: 'ebb.scope',
  resource: 'ebb.resource',
} as const

/** What the container is called in a plan. */
export const containerLabel = 'container'

/** What the ledger holds of a container: enough to find it again, and nothing that could be a secret. */
export interface ContainerSpec {
  readonly installation: string
  readonly image: string
  /** How much it may write on each of its streams; what is more is not kept. */
  readonly mostBytes?: number
}

/** What making one takes; in memory only. */
export type ContainerLive = Omit<ContainerOrder, 'name' | 'labels' | 'image'>

/** Where what it writes is copied to. */
export type OutputPaths = Readonly<Record<OutputStream, string>>

export interface ContainerHandle {
  readonly id: string
  readonly paths: OutputPaths | undefined
  readonly mostBytes: number
  /** The daemon that made it. */
  readonly daemon: DaemonMark | undefined
}

/** Which daemon was asked: what another one does not know may be there all the same. */
export interface DaemonMark {
  readonly identity: string
  /** Where it was, for people. */
  readonly host: string
}

export interface ContainerRunSpec {
  readonly installation: string
  /** The program's name, for people. */
  readonly program: string
  readonly politeSignal?: NodeJS.Signals
}

/** What starting one takes; in memory only. */
export interface ContainerRunLive {
  readonly input: string
}
