import type { ResourceReport, StepTaken } from './report.ts'
import type { Proof } from './resource.ts'

/** Where a resource stands in a close that is under way; the last four are how it may end. */
export const releaseStates = [
  'waiting',
  'looking',
  'obligations',
  'polite',
  'terminate',
  'kill',
  'released',
  'stuck',
  'held-back',
  'given-up',
] as const
export type ReleaseState = (typeof releaseStates)[number]

/** One resource of a close that is under way: as in the report that it will have, as far as that is known. */
export interface ResourceProgress
  extends Pick<ResourceReport, 'kind' | 'name' | 'startedAt' | 'endedAt' | 'obligations' | 'error' | 'notes'> {
  readonly id: string
  readonly scope: NonNullable<ResourceReport['scope']>
  readonly dependsOn: readonly string[]
  readonly state: ReleaseState
  /** When it came to this state. */
  readonly since: string
  /** Those that are over; the one that is being taken is the state. */
  readonly steps: readonly StepTaken[]
  readonly proof?: Proof
}
