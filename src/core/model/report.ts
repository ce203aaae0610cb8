import type { Trigger } from './close-request.ts'
import type { LadderStep } from './ladder.ts'
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
  /** What a listing that failed would have found has none; the same for the next three. */
  readonly id?: string
  /** Whose it is, so that a larger close can be told agent by agent. */
  readonly scope?: { readonly kind: ScopeKind; readonly id: string }
  /** By id: it waited for those that depend on it, as these waited for it. */
  readonly dependsOn?: readonly string[]
  /** When its turn came: what depends on it was gone. */
  readonly startedAt?: string
  readonly endedAt?: string
  /** When what was owed was done, or tried, and how many milliseconds it took. */
  readonly obligations?: { readonly at: string; readonly took: number }
  readonly outcome: 'released' | 'stuck' | 'held-back' | 'given-up'
  readonly steps: readonly StepTaken[]
  readonly proof?: Proof
  readonly error?: string
  /** What is worth knowing though it is no failure, such as who had a log open. */
  readonly notes?: readonly string[]
}

/** Said of what is not stuck itself, but has something on it that is still there. */
export const waitsForOthers = 'Waits for what depends on it.'

/** What one close did. The shape is public (`/api/openapi.json`): fields may be added, never renamed. */
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
