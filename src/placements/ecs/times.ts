/** Durations on AWS. Tests shorten them by wrapping them like a port. */
export interface AwsTimes {
  /**
   * The ECS API is eventually consistent: a task that was just started may not be listed yet. Until this time has passed, a missing task
   * does not count as absent. AWS recommends to query again with exponential backoff. The same holds for a call that was sent and not
   * answered.
   */
  readonly settleMs: number
  /** The first and the longest delay between two observations of a resource that is changing its state. */
  readonly firstObserveDelayMs: number
  readonly longestObserveDelayMs: number
  /** The time in which a target must become healthy. It is shorter than `createBudgetMs`, so that the launch can report the reason. */
  readonly healthyWithinMs: number
}

export const usualTimes: AwsTimes = { settleMs: 45_000, firstObserveDelayMs: 100, longestObserveDelayMs: 4_000, healthyWithinMs: 240_000 }

/**
 * The time for a creation. Fargate takes 20 to 90 s to start a task, mostly for pulling the image, and a target must pass its health
 * checks.
 */
export const createBudgetMs = 300_000

/**
 * The time for a task to stop. ECS waits for `stopTimeout`, at most 120 s, before it kills the containers. Then it removes the network
 * interface.
 */
export const stopPatienceMs = 180_000

/** The time for one more observation after the settling time. */
export const settleMarginMs = 10_000

/** The time to upload this many bytes at one megabyte per second. A host in the same region is much faster; a distant host may not be. */
export function uploadMs(bytes: number): number {
  return bytes / 1_000
}
