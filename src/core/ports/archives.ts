/** The archived logs of agents: the ledger names them, and the file system is checked for them. */

export interface ArchivedFile {
  /** The stream that the log holds: `stdout`, `stderr`, `progress` or `findings`. */
  readonly stream: string
  /** The absolute path of the archive, with the extension of its compression. */
  readonly path: string
  /** The size of the archive on the disk. */
  readonly bytes: number
  readonly isCompressed: boolean
}

export interface Archives {
  /** The archives that exist, one per stream, in the order stdout, progress, findings, and then the others. */
  files(agentId: string): Promise<readonly ArchivedFile[]>
  /** Removes all archives of the agent. Rejects when one is left. */
  remove(agentId: string): Promise<void>
  /**
   * Compresses an archived log. Returns the number of bytes saved, and 0 when compression would save nothing. A crash leaves either the
   * original or the compressed file.
   */
  compress(agentId: string, file: ArchivedFile): Promise<number>
  /** Reads the uncompressed content of an archived log. */
  read(file: ArchivedFile): AsyncIterable<Uint8Array>
}

/** Selects lines of a log. The log is read from `path`, or from its archive, compressed or not. */
export interface LogQuery {
  readonly path: string
  readonly archive: string
  /** The position after which lines are returned, in bytes of the uncompressed log. It is the `next` of an earlier answer. */
  readonly since?: number
  /** The number of lines to return from the end of the log. */
  readonly tail?: number
  readonly maxLines: number
  readonly maxBytes: number
}

export interface LogLines {
  readonly lines: readonly string[]
  /** The position after the last line that was returned or skipped. */
  readonly next: number
}

export type ReadLog = (query: LogQuery) => Promise<LogLines>
