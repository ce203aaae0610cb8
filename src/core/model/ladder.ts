/** The steps of a stop, each a race between the exit and a budget (G14). */
export const ladderSteps = ['polite', 'terminate', 'kill'] as const
export type LadderStep = (typeof ladderSteps)[number]

/** What the ladder takes of a close's policy. */
interface Budget {
  readonly firstStep: LadderStep
  readonly graceMs: number
  readonly deadlineMs: number
}

export interface Rung {
  readonly step: LadderStep
  readonly budgetMs: number
}

/**
 * The rungs a close takes for a resource that knows only some of the steps. Grace is polite and terminate
 * together; a resource without a polite way gives all of it to terminate.
 */
export function ladder(policy: Budget, known: readonly LadderStep[]): readonly Rung[] {
  const first = ladderSteps.indexOf(policy.firstStep)
  const steps = ladderSteps.filter((step, index) => index >= first && known.includes(step))
  const gentle = steps.filter((step) => step !== 'kill').length
  return steps.map((step) => ({
    step,
    budgetMs: step === 'kill' ? policy.deadlineMs : Math.floor(policy.graceMs / gentle),
  }))
}
