import type { Findings, Leftover, LeftoverEnd } from './judgement/leftover.ts'

/** Leftovers of agent runs that Ebb did not start. */
export interface Leftovers {
  /** Searches for leftovers, and changes nothing. */
  find(): Promise<Findings>
  /** Ends the leftovers that `--fix` may end. Searches again first, and leaves alone what has changed since it was shown. */
  end(shown: readonly Leftover[]): Promise<readonly LeftoverEnd[]>
}
