import type { ResourceReport, StepTaken } from './report.ts'
import type { Proof } from './resource.ts'

/** The state of a resource in a running close. The last four are final. */
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

/** One resource of a running close: the fields of its later report, as far as they are known. */
export interface ResourceProgress
  extends Pick<ResourceReport, 'kind' | 'name' | 'startedAt' | 'endedAt' | 'obligations' | 'error' | 'notes'> {
  readonly id: string
  readonly scope: NonNullable<ResourceReport['scope']>
  readonly dependsOn: readonly string[]
  readonly state: ReleaseState
  /** When the resource reached this state. */
  readonly since: string
  /** The steps that have ended. The step that is being taken is the state. */
  readonly steps: readonly StepTaken[]
  readonly proof?: Proof
}
