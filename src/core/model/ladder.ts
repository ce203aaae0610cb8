/** The steps of a stop. Each is a race between the exit and a time budget (G14). */
export const ladderSteps = ['polite', 'terminate', 'kill'] as const
export type LadderStep = (typeof ladderSteps)[number]

/** The part of a close's policy that the ladder needs. */
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
 * The steps that a close takes for a resource that supports only some of them, with their budgets. The grace is for `polite` and
 * `terminate` together. A resource without a polite step gives all of it to `terminate`.
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
