import type { Leftover, Sureness } from './leftover.ts'

/** Files and folders by which an agent program is known; whether a living one may need them is for its start time to say. */
export interface FilesFact {
  /** The folder itself, or the one that the files are in. */
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
  /** Somebody of this user did not let us look at what it has open, or is outside of our container, which may share the folder. */
  readonly isPartial: boolean
  readonly nowMs: number
}

export function judgeFiles(fact: FilesFact, { agents, open, isPartial, nowMs }: FilesScene): Leftover | undefined {
  const since = Math.min(...agents.filter(({ program }) => program === fact.program).map(({ startedAtMs }) => startedAtMs))
  const isHeld = (path: string): boolean => open.has(path) || (fact.isFolder && [...open].some((one) => one.startsWith(`${path}/`)))
  // Clocks of the disk and of the kernel differ by less than this.
  const going = fact.files.filter(({ path, changedAtMs }) => changedAtMs < since - 2_000 && !isHeld(path))
  const [first] = going
  if (!first) return undefined
  const sure: Sureness = isPartial ? 'likely' : 'sure'
  const newest = Math.max(...going.map(({ changedAtMs }) => changedAtMs))
  return {
    id: `files:${fact.place}`,
    kind: 'folder',
    what: fact.isFolder ? `${fact.what}: ${fact.place}` : `${going.length} ${fact.what} in ${fact.place}`,
    evidence: [
      `${fact.program} makes ${fact.isFolder ? 'such a folder' : 'such files'} for itself, and leaves ${fact.isFolder ? 'it' : 'them'} when it is killed.`,
      Number.isFinite(since)
        ? `Every ${fact.program} that runs now was started after the last change.`
        : `No ${fact.program} of this user${isPartial ? ' that we can see' : ''} runs any more.`,
      isPartial ? 'No process that we may look at has it open.' : 'No process has it open.',
    ],
    sure,
    since: new Date(newest).toISOString(),
    ageMs: Math.max(0, Math.round(nowMs - newest)),
    memoryBytes: 0,
    sizeBytes: going.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    processes: [],
    paths: going.map(({ path }) => path),
    fixes: true,
    fix: fact.isFolder ? '--fix removes the folder with all that is in it.' : '--fix removes these files.',
  }
}
