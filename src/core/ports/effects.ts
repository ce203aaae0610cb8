import type { Stats } from 'node:fs'
import type { Duplex } from 'node:stream'

export type Stdio = 'inherit' | 'ignore' | 'pipe' | number

export interface Command {
  readonly program: string
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd?: string
  readonly stdio: readonly Stdio[]
  /** A session of its own. */
  readonly detached?: boolean
  readonly uid?: number
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** A child process of ours. `exit` is its own end, whoever still holds its pipes. */
export interface Child {
  readonly pid: number
  readonly exit: Promise<Exit>
  readonly stdin: { write(text: string): void; end(text?: string): void } | undefined
  /** Its last stream, where that is a pipe beyond the standard ones: both ways, for a helper of ours. */
  readonly channel?: Duplex
  /** Resolves with the first line of its stdout, or of its stderr where that is a pipe, or undefined when it ends before one. */
  firstLine(): Promise<string | undefined>
  /** Lets our process end while the child runs. */
  unref(): void
}

/**
 * Everything that changes the world goes through here, one call per change, so that the crash matrix can end the
 * process before and after each of them (G9). Looking at the world does not.
 */
export interface Effects {
  makeDirectory(path: string, mode?: number): void
  /** By its bytes, where its name need not be text. */
  removeDirectory(path: string | Buffer): void
  /** Writes an existing file, such as the kernel's `cgroup.kill`; never creates one. */
  write(path: string, text: string): void
  /** Fails when the path exists, and never follows a link. */
  createFile(path: string, content: string | Uint8Array, mode: number): Stats
  link(from: string, to: string): void
  rename(from: string, to: string): void
  unlink(path: string): void
  /** A directory with all that is in it; links are removed, never followed. */
  removeTree(path: string): void
  /** Makes what was written to a file, or the entries of a directory, survive a power cut. */
  sync(path: string): void
  /** The same beside the event loop, for what may be large. Never through a link. */
  flush(path: string): Promise<void>
  /** Adds to a file, and makes it where there is none: all of the text, or nothing. Never through a link, never to another's file. */
  append(path: string, text: string | Uint8Array, mode: number): void
  /** The content of a file in a new one, durable; fails where something is. Never through a link. */
  copy(from: string, to: string): Promise<void>
  /** The same, compressed with zstd. */
  compress(from: string, to: string): Promise<void>
  /** As `removeTree`, of a file or a directory, beside the event loop. What is not there is gone. */
  discard(path: string): Promise<void>
  /**
   * A folder with all that is in it, beside the event loop, however much and deep it is and whatever its modes. Never through
   * a link, and never what is mounted in it. What is not there is gone.
   */
  removeFolder(path: string): Promise<void>
  /** A link that nobody follows: it only says where something of ours is. Fails where something is. */
  point(path: string, to: string): void
  makePipe(path: string): Promise<void>
  openFile(path: string, flags: number, mode?: number): number
  closeFile(fd: number): void
  /** A file in a directory that never has a name, open for reading a text from its start. Not every file system has them. */
  openText(directory: string, text: string): number
  spawn(command: Command): Promise<Child>
  signal(pid: number, signal: NodeJS.Signals): void
}
