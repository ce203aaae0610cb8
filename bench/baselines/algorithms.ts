import type { Crew } from './crew.ts'

/** A cleanup as it is described, from "clean up everything" to the moment it says that it is done. */
export interface Algorithm {
  readonly name: string
  readonly title: string
  readonly how: string
  /** Starts the agents of the crew; the answer cleans them up and says whether that was a success. */
  start(crew: Crew): Promise<Started>
}

export interface Started {
  cleanUp(): Promise<boolean>
  end?(): Promise<void>
}

/** Only for the delays that an algorithm itself prescribes. */
export async function prescribedDelay(timeMs: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, timeMs))
}
