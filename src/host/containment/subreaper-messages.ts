import type { Exit } from '../../core/ports/effects.ts'

/** The messages between supervisor and subreaper process: one JSON object per line, on a channel that the command does not inherit. */

/**
 * The end of a subreaper process's environment tag. It makes the tag different from the tree's, so that no scan kills the subreaper
 * process as a member.
 */
export const subreaperSuffix = '/keeper'

/** The command with its gates. It is sent on the channel so that no text of the user is in the argv of the subreaper process. */
export interface StartOrder {
  readonly do: 'start'
  readonly program: string
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  readonly detached: boolean
  /** The descriptors that the command inherits besides its standard streams, under the same numbers. */
  readonly descriptors: readonly number[]
}

export type Order =
  | StartOrder
  /** Sends the signals to every descendant of the subreaper process, in this order. */
  | { readonly do: 'signal'; readonly signals: readonly NodeJS.Signals[] }
  | { readonly do: 'kill' }

export type News =
  | { readonly is: 'started'; readonly pid: number }
  | { readonly is: 'failed'; readonly error: string }
  /** The command has exited; other processes of its tree may still run. */
  | ({ readonly is: 'exit' } & Exit)
  /** Confirms the order to kill. */
  | { readonly is: 'killing' }
  /** waitpid(2) failed with ECHILD: the subreaper process has no descendant left. */
  | { readonly is: 'gone' }

/** Returns a function that takes chunks and calls `onLine` with each complete line. */
export function splitLines(onLine: (line: string) => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0)
  return (chunk) => {
    rest = Buffer.concat([rest, chunk])
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const line = rest.toString('utf8', 0, end)
      rest = rest.subarray(end + 1)
      onLine(line)
    }
  }
}
