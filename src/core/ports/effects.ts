import type { Stats } from 'node:fs'
import type { Duplex } from 'node:stream'

export type Stdio = 'inherit' | 'ignore' | 'pipe' | number

export interface Command {
  readonly program: string
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd?: string
  readonly stdio: readonly Stdio[]
  /** Starts the process in a session of its own. */
  readonly detached?: boolean
  readonly uid?: number
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** A child process of Ebb. `exit` settles at its own exit, even while other processes hold its pipes. */
export interface Child {
  readonly pid: number
  readonly exit: Promise<Exit>
  readonly stdin: { write(text: string): void; end(text?: string): void } | undefined
  /**
   * The child's last stream, when that is a pipe above the standard streams. It carries data in both directions, for a helper process of
   * Ebb.
   */
  readonly channel?: Duplex
  /**
   * Resolves with the first line of the child's stdout, or of its stderr where that is a pipe. Resolves with undefined when the streams end
   * before a line.
   */
  firstLine(): Promise<string | undefined>
  /** Lets Ebb's process exit while the child runs. */
  unref(): void
}

/**
 * Every change to the system is one of these calls, so that the crash matrix can end the process before and after each of them (G9). Calls
 * that only read are not here.
 */
export interface Effects {
  makeDirectory(path: string, mode?: number): void
  /** The path may be bytes, because the name of a file need not be valid text. */
  removeDirectory(path: string | Buffer): void
  /** Writes an existing file, such as the kernel's `cgroup.kill`. Never creates one. */
  write(path: string, text: string): void
  /** Does the same as `write` outside the event loop, for a file of the kernel that answers late. */
  writeBeside(path: string, text: string): Promise<void>
  changeMode(path: string, mode: number): void
  /** Creates a file. Fails when the path exists, and never follows a symlink. */
  createFile(path: string, content: string | Uint8Array, mode: number): Stats
  link(from: string, to: string): void
  rename(from: string, to: string): void
  unlink(path: string): void
  /** Removes a directory with everything in it. Symlinks are removed, never followed. */
  removeTree(path: string): void
  /** Makes the content of a file, or the entries of a directory, survive a power cut. */
  sync(path: string): void
  /** Does the same as `sync` outside the event loop, for large files. Never follows a symlink. */
  flush(path: string): Promise<void>
  /**
   * Appends all of the text to a file, or nothing, and creates the file if it is missing. Never follows a symlink, and refuses a file with
   * a second name.
   */
  append(path: string, text: string | Uint8Array, mode: number): void
  /** Copies a file into a new one that survives a power cut. Fails when the target exists. Never follows a symlink. */
  copy(from: string, to: string): Promise<void>
  /** Does the same as `copy`, and compresses with zstd. */
  compress(from: string, to: string): Promise<void>
  /** Does the same as `removeTree` outside the event loop, for a file or a directory. A missing path counts as removed. */
  discard(path: string): Promise<void>
  /**
   * Removes a folder with everything in it outside the event loop, at any size, depth and mode. Never follows a symlink, and never removes
   * what is mounted in it. A missing path counts as removed.
   */
  removeFolder(path: string): Promise<void>
  /** Creates a symlink that nothing follows. Its target only records the path of something that Ebb made. Fails when the path exists. */
  point(path: string, to: string): void
  makePipe(path: string): Promise<void>
  openFile(path: string, flags: number, mode?: number): number
  closeFile(fd: number): void
  /**
   * Opens a file without a name in a directory, for reading the text from its start. Not every file system supports this (O_TMPFILE,
   * open(2)).
   */
  openText(directory: string, text: string): number
  spawn(command: Command): Promise<Child>
  signal(pid: number, signal: NodeJS.Signals): void
  /** Signals the process of a pidfd. Returns false when the kernel refused. */
  signalPinned(pidfd: number, signal: NodeJS.Signals): boolean
}
