import type { LadderStep } from './ladder.ts'
import type { Trigger } from './policy.ts'
import type { Proof } from './resource.ts'
import type { ScopeKind } from './scope.ts'

export interface StepTaken {
  readonly step: LadderStep
  readonly at: string
  /** Milliseconds. */
  readonly took: number
}

export interface ResourceReport {
  readonly kind: string
  readonly name: string
  readonly outcome: 'released' | 'stuck' | 'held-back' | 'given-up'
  readonly steps: readonly StepTaken[]
  readonly proof?: Proof
  readonly error?: string
  /** What is worth knowing though it is no failure, such as who had a log open. */
  readonly notes?: readonly string[]
}

/** What one close did. The shape is the contract's: fields may be added, never renamed. */
export interface Report {
  /** Nothing of the scope is left in the world, proven, and nothing is held back. */
  readonly success: boolean
  readonly trigger: Trigger
  readonly scope: { readonly kind: ScopeKind; readonly id: string }
  readonly startedAt: string
  readonly duration: number
  readonly cleanedAgentsCount: number
  readonly cleanedMessagesCount: number
  readonly resources: readonly ResourceReport[]
  readonly errors: readonly string[]
  readonly gaveUp: readonly string[]
}

/** `given-up` is not a failure: the thing is gone, and the report names what was lost with it. */
export function isClean(resources: readonly ResourceReport[]): boolean {
  return resources.every((resource) => resource.outcome === 'released' || resource.outcome === 'given-up')
}

export function leftOver(report: Report): readonly ResourceReport[] {
  return report.resources.filter((resource) => resource.outcome === 'stuck' || resource.outcome === 'held-back')
}
