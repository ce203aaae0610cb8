/** The archived logs of agents, as the ledger names them and as they are in the world now. */

export interface ArchivedFile {
  /** `stdout`, `stderr`, `progress`, `findings`. */
  readonly stream: string
  /** Absolute, with the ending of its compression. */
  readonly path: string
  /** On the disk. */
  readonly bytes: number
  readonly isCompressed: boolean
}

export interface Archives {
  /** Those that are there, in the order stdout, progress, findings, and then the others; one for each stream. */
  files(agentId: string): Promise<readonly ArchivedFile[]>
  /** All of them go; gone when it resolves, or it fails. */
  remove(agentId: string): Promise<void>
  /** Says how many bytes that freed; none where nothing would be gained. A crash leaves the one or the other. */
  compress(agentId: string, file: ArchivedFile): Promise<number>
  /** What was written, whether it is compressed or not. */
  read(file: ArchivedFile): AsyncIterable<Uint8Array>
}

/** Which lines of a log: of the live one, or of its archive, compressed or not. */
export interface LogQuery {
  readonly path: string
  readonly archive: string
  /** Only what comes after this place, in bytes of what was written: `next` of an earlier answer. */
  readonly since?: number
  /** Only the last so many. */
  readonly tail?: number
  readonly maxLines: number
  readonly maxBytes: number
}

export interface LogLines {
  readonly lines: readonly string[]
  /** The place after the last line that was given, or passed over. */
  readonly next: number
}

export type ReadLog = (query: LogQuery) => Promise<LogLines>
