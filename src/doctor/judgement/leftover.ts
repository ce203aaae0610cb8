/**
 * Leftovers on this machine of agent runs that Ebb did not start: the evidence, the kind and the certainty. Only a leftover that is
 * `sure` or `likely` may be ended. One that may be in use is `perhaps`: it is shown and left alone (G4, G10).
 */

export type Sureness = 'sure' | 'likely' | 'perhaps'

export const leftoverKinds = ['agent', 'tool', 'mcp-server', 'tmux-session', 'folder', 'worktree'] as const
export type LeftoverKind = (typeof leftoverKinds)[number]

/** Identifies one process: a pid is reused, but the pair of pid and start time is unique within one boot. */
export interface ProcessName {
  readonly pid: number
  readonly startTime: string
}

export interface Leftover {
  /** The id of a leftover is the same in every search. Another process with the same pid has another id. */
  readonly id: string
  readonly kind: LeftoverKind
  /** A description in one line: a masked command line, a session or a path. */
  readonly what: string
  /** Sentences that say why the entry is taken for a leftover, and why it may be in use. */
  readonly evidence: readonly string[]
  readonly sure: Sureness
  /** When a process started, or when a session, folder or worktree was last used or changed, in ISO 8601; null when unknown. */
  readonly since: string | null
  readonly ageMs: number | null
  /** The resident memory of all processes of the leftover. */
  readonly memoryBytes: number
  /** The space that the files take on the disk. */
  readonly sizeBytes: number
  readonly processes: readonly ProcessName[]
  /** The paths of the files, or of the one folder or worktree. */
  readonly paths: readonly string[]
  /** Whether `--fix` would end the leftover. `fix` is a sentence that says how, or why not. */
  readonly fixes: boolean
  readonly fix: string
}

/** The result of one search. `unseen` says in sentences what could not be searched. Nothing that is named there is ended. */
export interface Findings {
  readonly leftovers: readonly Leftover[]
  readonly unseen: readonly string[]
}

export type EndStep = 'terminate' | 'kill' | 'kill-session' | 'remove'

/** The outcome for one leftover. `changed` means that the leftover is no longer what was shown, and was left alone. */
export interface LeftoverEnd {
  readonly id: string
  readonly what: string
  readonly outcome: 'gone' | 'changed' | 'left'
  readonly steps: readonly { readonly step: EndStep; readonly took: number }[]
  /** The proof that the leftover is gone, or the reason why it is not. */
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

/** Groups by kind in a fixed order. Within a kind the most certain come first, then the oldest. */
export function grouped(leftovers: readonly Leftover[]): readonly (readonly [LeftoverKind, readonly Leftover[]])[] {
  const ranks: Readonly<Record<Sureness, number>> = { sure: 0, likely: 1, perhaps: 2 }
  const inOrder = (a: Leftover, b: Leftover): number =>
    ranks[a.sure] - ranks[b.sure] || (b.ageMs ?? 0) - (a.ageMs ?? 0) || a.id.localeCompare(b.id)
  return leftoverKinds.flatMap((kind) => {
    const found = leftovers.filter((one) => one.kind === kind)
    return found.length === 0 ? [] : [[kind, found.toSorted(inOrder)] as const]
  })
}

/** Quotes a word for a POSIX shell. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}
