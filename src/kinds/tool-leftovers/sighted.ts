import type { Stats } from 'node:fs'
import type { TracePlace } from '../../core/ports/provider.ts'

export interface ToolLeftoversSpec {
  readonly places: readonly TracePlace[]
  /** A file is ours when it contains one of these texts, which cannot be guessed. */
  readonly marks: readonly string[]
  /**
   * The earliest time of change, by the wall clock: a file that was changed before it is older than the agent. The limit saves reading the
   * thousands of older files that a user may have.
   */
  readonly sinceMs: number
}

/** A file at the time when it was read. */
export interface FileVersion {
  readonly path: string
  readonly version: string
}

export interface Leftover extends FileVersion {
  /** Related files without a mark. They are removed before this file, because only its mark shows whose they are. */
  readonly kin: readonly FileVersion[]
}

/** The version of a file. It changes when the path names another file or the content changes. */
export function versionOf({ dev, ino, size, mtimeMs }: Pick<Stats, 'dev' | 'ino' | 'size' | 'mtimeMs'>): string {
  return `${dev} ${ino} ${size} ${mtimeMs}`
}
