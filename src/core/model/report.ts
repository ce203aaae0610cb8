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
  /**
   * The id of the resource. It is absent in two cases: a listing failed, or the sweep found something again at the deadline. Then `scope`,
   * `dependsOn`, `startedAt` and `endedAt` are absent, too.
   */
  readonly id?: string
  /** The owner of the resource, so that the report of a large close can be shown agent by agent. */
  readonly scope?: { readonly kind: ScopeKind; readonly id: string }
  /** Ids of the resources that this one depends on. They are released after it. */
  readonly dependsOn?: readonly string[]
  /** When the release of the resource began. Absent when a resource that depends on it held it back. */
  readonly startedAt?: string
  readonly endedAt?: string
  /** When the obligations were tried, and for how many milliseconds. */
  readonly obligations?: { readonly at: string; readonly took: number }
  readonly outcome: 'released' | 'stuck' | 'held-back' | 'given-up'
  readonly steps: readonly StepTaken[]
  readonly proof?: Proof
  readonly error?: string
  /** Facts that are no failure, such as which process had a log open. */
  readonly notes?: readonly string[]
}

/** The error of a resource that is held back because something that depends on it is still there. */
export const waitsForOthers = 'A resource that depends on it still exists.'

/** The result of one close. The shape is public (`/api/openapi.json`): fields may be added, never renamed. */
export interface Report {
  /** True when nothing of the scope exists any more, with proof, and nothing is held back. */
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

/** `given-up` is not a failure: the resource is gone, and the report names the obligations that were lost. */
export function isClean(resources: readonly ResourceReport[]): boolean {
  return resources.every((resource) => resource.outcome === 'released' || resource.outcome === 'given-up')
}

export function leftOver(report: Report): readonly ResourceReport[] {
  return report.resources.filter((resource) => resource.outcome === 'stuck' || resource.outcome === 'held-back')
}
