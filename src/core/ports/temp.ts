import { join } from 'node:path'

/** Types that the plan of a temp folder, its kind, and the kind of tool leftovers share. */

export const tempLabel = 'temp'
export const toolLeftoversLabel = 'traces'

export interface TempFolderSpec {
  readonly installation: string
  /** The system's folder for temporary files at the time of the launch. The system may use another folder by now. */
  readonly base: string
}

/**
 * The path of a scope's temp folder. It is short, because programs create sockets in it, and a socket's path has at most 108 bytes
 * (unix(7)), on macOS 104. It contains all 122 random bits of the id, so it cannot be guessed.
 */
export function tempFolderOf(base: string, scopeId: string): string {
  const isUuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(scopeId)
  return join(base, `ebb-${isUuid ? Buffer.from(scopeId.replaceAll('-', ''), 'hex').toString('base64url') : scopeId}`)
}

/** Files that a program leaves in a folder of its user when it is killed. */
export interface TracePlace {
  /** Absolute path. */
  readonly folder: string
  /** A pattern for the whole name. */
  readonly name: string
  /** A second file that belongs to such a file. It is in the same folder and is removed with it. */
  readonly kin?: {
    /** A pattern for its whole name. `{stem}` is the first file's name up to its last dot. */
    readonly name: string
    /**
     * The text that each of these patterns finds in the first file must be in the second one, too. A name alone may belong to another
     * program's file by now.
     */
    readonly shares: readonly string[]
  }
}

export interface ToolLeftoversSpec {
  readonly places: readonly TracePlace[]
  /** A file is ours when it contains one of these texts, which cannot be guessed. */
  readonly marks: readonly string[]
  /**
   * By the wall clock. A file changed before this is older than the agent. The limit saves reading the thousands of older files that a user
   * may have.
   */
  readonly sinceMs: number
}
