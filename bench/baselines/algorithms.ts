import type { Crew } from './crew.ts'

/** A cleanup, from the request until it reports its end. */
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

/** For delays that are a part of an algorithm only. */
export async function prescribedDelay(timeMs: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, timeMs))
}
