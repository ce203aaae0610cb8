/**
 * What agent runs that Ebb did not start have left on this machine: what was seen, what it is, and how sure we are. Only what is
 * `sure` or `likely` may be ended; what may be in use is `perhaps`, and is shown and left alone (G4, G10).
 */

export type Sureness = 'sure' | 'likely' | 'perhaps'

export const leftoverKinds = ['agent', 'tool', 'mcp-server', 'tmux-session', 'folder', 'worktree'] as const
export type LeftoverKind = (typeof leftoverKinds)[number]

/** A process for good: pids are reused, start times within one boot are not. */
export interface ProcessName {
  readonly pid: number
  readonly startTime: string
}

export interface Leftover {
  /** The same for the same thing in every look; another for whatever takes its place. */
  readonly id: string
  readonly kind: LeftoverKind
  /** In one line: a masked command line, a session, a path. */
  readonly what: string
  /** Sentences: why we think so, and why it may be in use. */
  readonly evidence: readonly string[]
  readonly sure: Sureness
  /** ISO 8601; null where nobody can say. */
  readonly since: string | null
  readonly ageMs: number | null
  /** Resident, of all its processes. */
  readonly memoryBytes: number
  /** On the disk. */
  readonly sizeBytes: number
  readonly processes: readonly ProcessName[]
  /** Files, or the one folder. */
  readonly paths: readonly string[]
  /** Whether `--fix` would end it, and in a sentence how, or why not. */
  readonly fixes: boolean
  readonly fix: string
}

/** What a look could not see, in sentences; what is not seen is never ended. */
export interface Findings {
  readonly leftovers: readonly Leftover[]
  readonly unseen: readonly string[]
}

export type EndStep = 'terminate' | 'kill' | 'kill-session' | 'remove'

/** What became of one leftover. `changed`: it was no longer what had been shown, so it was left alone. */
export interface LeftoverEnd {
  readonly id: string
  readonly what: string
  readonly outcome: 'gone' | 'changed' | 'left'
  readonly steps: readonly { readonly step: EndStep; readonly took: number }[]
  /** Why we say that it is gone, or why it is not. */
  readonly says: string
}

export interface Total {
  readonly count: number
  readonly processes: number
  readonly memoryBytes: number
  readonly sizeBytes: number
}

export function totalOf(leftovers: readonly Leftover[]): Total {
  const sum = (of: (one: Leftover) => number): number => leftovers.reduce((total, one) => total + of(one), 0)
  return {
    count: leftovers.length,
    processes: sum(({ processes }) => processes.length),
    memoryBytes: sum(({ memoryBytes }) => memoryBytes),
    sizeBytes: sum(({ sizeBytes }) => sizeBytes),
  }
}

/** By kind in a fixed order, the surest and then the oldest first. */
export function grouped(leftovers: readonly Leftover[]): readonly (readonly [LeftoverKind, readonly Leftover[]])[] {
  const ranks: Readonly<Record<Sureness, number>> = { sure: 0, likely: 1, perhaps: 2 }
  const inOrder = (a: Leftover, b: Leftover): number =>
    ranks[a.sure] - ranks[b.sure] || (b.ageMs ?? 0) - (a.ageMs ?? 0) || a.id.localeCompare(b.id)
  return leftoverKinds.flatMap((kind) => {
    const found = leftovers.filter((one) => one.kind === kind)
    return found.length === 0 ? [] : [[kind, found.toSorted(inOrder)] as const]
  })
}

/** A word for a shell, as it stands. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}
