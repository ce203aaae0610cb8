import { join } from 'node:path'

/** What those who plan a temp folder, its kind, and the kind of what is left elsewhere have to agree on. */

export const tempLabel = 'temp'
export const toolLeftoversLabel = 'traces'

export interface TempFolderSpec {
  readonly installation: string
  /** The system's folder for such things, where the folder was made; ours may be another one by now. */
  readonly base: string
}

/**
 * Where the temp folder of a scope is. Short, because programs put sockets into it, and the path of one has 108 bytes
 * (unix(7)), on macOS 104; and nobody can guess it, because nobody can guess the id: all of its 122 random bits are in it.
 */
export function tempFolderOf(base: string, scopeId: string): string {
  const isUuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(scopeId)
  return join(base, `ebb-${isUuid ? Buffer.from(scopeId.replaceAll('-', ''), 'hex').toString('base64url') : scopeId}`)
}

/** Files that a program leaves in a folder of its user's when it is killed. */
export interface TracePlace {
  /** Absolute. */
  readonly folder: string
  /** The whole name, as a pattern. */
  readonly name: string
  /** What belongs to such a file, lies beside it, and goes with it. */
  readonly kin?: {
    /** Its whole name, as a pattern; `{stem}` is the file's own name up to its last dot. */
    readonly name: string
    /** What these patterns find in the file must be in its kin too: a name alone may be another one's by now. */
    readonly shares: readonly string[]
  }
}

export interface ToolLeftoversSpec {
  readonly places: readonly TracePlace[]
  /** A file is ours when it holds one of these, which nobody can guess. */
  readonly marks: readonly string[]
  /** What was changed before, by the wall clock, is older than the agent: its user may have thousands of these. */
  readonly sinceMs: number
}
