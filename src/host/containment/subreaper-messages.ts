import type { Exit } from '../../core/ports/effects.ts'

/** What supervisor and keeper say to each other, on a channel that the command does not have: one JSON object per line. */

/** The part that a keeper's cookie ends with. It is nobody's member: no scan may take it for one and kill it. */
export const subreaperSuffix = '/keeper'

/** The command, doors included; it comes this way so that nothing of the user's stands in the keeper's argv. */
export interface StartOrder {
  readonly do: 'start'
  readonly program: string
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  readonly detached: boolean
  /** What it gets besides its standard streams, each under its own number. */
  readonly descriptors: readonly number[]
}

export type Order =
  | StartOrder
  /** To every process below the keeper, in this order. */
  | { readonly do: 'signal'; readonly signals: readonly NodeJS.Signals[] }
  | { readonly do: 'kill' }

export type News =
  | { readonly is: 'started'; readonly pid: number }
  | { readonly is: 'failed'; readonly error: string }
  /** The command's own end; others of its tree may live on. */
  | ({ readonly is: 'exit' } & Exit)
  /** The kill has been heard. */
  | { readonly is: 'killing' }
  /** waitpid(2) says ECHILD: nothing is left below the keeper. */
  | { readonly is: 'gone' }

/** Calls back with every whole line; what comes in pieces is put together. */
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
