/** How long things take on AWS. Tests shorten them, through the same door as they wrap the ports. */
export interface AwsTimes {
  /**
   * The ECS API is eventually consistent: a task that was just started need not be listed yet. So long nothing is said to be absent
   * because it was not seen. AWS advises to look again with growing waits. The same holds for a call that was sent and never answered.
   */
  readonly settleMs: number
  /** Between two looks at something that is on its way: the first wait and the longest. */
  readonly firstLookMs: number
  readonly longestLookMs: number
  /** How long a target may take to become healthy: less than its creation may, so that the launch can say what was the matter. */
  readonly healthyWithinMs: number
}

export const usualTimes: AwsTimes = { settleMs: 45_000, firstLookMs: 100, longestLookMs: 4_000, healthyWithinMs: 240_000 }

/** Fargate takes 20 to 90 s to start a task, most of it for the image; a target takes its health checks. */
export const createBudgetMs = 300_000

/** ECS waits `stopTimeout`, 120 s at most, before it kills; then the network interface goes. */
export const stopPatienceMs = 180_000

/** What is waited for until it has settled is looked at once more then. */
export const settleMarginMs = 10_000

/** A megabyte in a second is little for a host in the same region, and much for one far away. */
export function uploadMs(bytes: number): number {
  return bytes / 1_000
}
