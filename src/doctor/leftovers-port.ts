import type { Findings, Leftover, LeftoverEnd } from './judgement/leftover.ts'

/** Leftovers of agent runs that Ebb did not start. */
export interface Leftovers {
  /** Looks, and changes nothing. */
  find(): Promise<Findings>
  /** Ends those that `--fix` may end, each after another look; what has changed since it was shown is left alone. */
  end(shown: readonly Leftover[]): Promise<readonly LeftoverEnd[]>
}
