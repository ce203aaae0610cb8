import type { Crew } from './crew.ts'

/** A way to clean up the agents of a crew. A cleanup lasts from its request until the algorithm reports its end. */
export interface Algorithm {
  readonly name: string
  readonly title: string
  readonly how: string
  /** Starts the agents of the crew. `cleanUp` of the result ends them and reports whether that succeeded. */
  start(crew: Crew): Promise<Started>
}

export interface Started {
  cleanUp(): Promise<boolean>
  end?(): Promise<void>
}

/** Waits for a delay that the measured algorithm itself prescribes. */
export async function prescribedDelay(timeMs: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, timeMs))
}
