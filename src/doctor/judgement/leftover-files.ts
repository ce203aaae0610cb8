import type { Leftover, Sureness } from './leftover.ts'

/** Files or a folder that an agent program made. Running agents that were started before the last change may still need them. */
export interface FilesFact {
  /** The folder itself, or the folder that contains the files. */
  readonly place: string
  readonly isFolder: boolean
  readonly what: string
  readonly program: string
  readonly files: readonly FileFact[]
}

export interface FileFact {
  readonly path: string
  readonly changedAtMs: number
  readonly sizeBytes: number
}

export interface FilesScene {
  readonly agents: readonly { readonly program: string; readonly startedAtMs: number }[]
  /** Paths that a living process has open, works in or runs from. */
  readonly open: ReadonlySet<string>
  /**
   * True when the open files of some process of this user are not visible: they were not readable, or the process may be outside of our
   * container.
   */
  readonly isPartial: boolean
  readonly nowMs: number
}

export function judgeFiles(fact: FilesFact, { agents, open, isPartial, nowMs }: FilesScene): Leftover | undefined {
  const since = Math.min(...agents.filter(({ program }) => program === fact.program).map(({ startedAtMs }) => startedAtMs))
  const isHeld = (path: string): boolean => open.has(path) || (fact.isFolder && [...open].some((one) => one.startsWith(`${path}/`)))
  // File times and process start times come from different clocks, which differ by less than two seconds.
  const removable = fact.files.filter(({ path, changedAtMs }) => changedAtMs < since - 2_000 && !isHeld(path))
  const [first] = removable
  if (!first) return undefined
  const sure: Sureness = isPartial ? 'likely' : 'sure'
  const newest = Math.max(...removable.map(({ changedAtMs }) => changedAtMs))
  return {
    id: `files:${fact.place}`,
    kind: 'folder',
    what: fact.isFolder ? `${fact.what}: ${fact.place}` : `${removable.length} ${fact.what} in ${fact.place}`,
    evidence: [
      `${fact.program} makes ${fact.isFolder ? 'such a folder' : 'such files'} for its own use, and leaves ${fact.isFolder ? 'it' : 'them'} behind when it is killed.`,
      Number.isFinite(since)
        ? `Every running ${fact.program} process was started after the last change.`
        : `No${isPartial ? ' visible' : ''} ${fact.program} process of this user is running.`,
      isPartial ? 'No visible process has it open.' : 'No process has it open.',
    ],
    sure,
    since: new Date(newest).toISOString(),
    ageMs: Math.max(0, Math.round(nowMs - newest)),
    memoryBytes: 0,
    sizeBytes: removable.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    processes: [],
    paths: removable.map(({ path }) => path),
    fixes: true,
    fix: fact.isFolder ? '--fix removes the folder with all that is in it.' : '--fix removes these files.',
  }
}
