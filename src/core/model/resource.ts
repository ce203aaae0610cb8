/** The states of a resource, which is one thing that must not outlive its scope. */
export type ResourceState = 'intended' | 'held' | 'closing' | 'released' | 'stuck'

/** The fate of a resource whose supervisor is lost. */
export type OnLoss = 'end' | 'keep'

/** The ledger's record of a resource, written before the resource exists (G1). */
export interface Intent<Spec = unknown, Detail = unknown> {
  readonly id: string
  readonly scopeId: string
  readonly incarnation: string
  readonly kind: string
  readonly spec: Spec
  /** Facts that are known only once the resource exists, such as an inode or a pid. */
  readonly detail?: Detail
  readonly dependsOn: readonly string[]
  readonly onLoss: OnLoss
}

export interface Resource extends Intent {
  readonly name: string
  readonly state: ResourceState
  readonly attempts: number
  readonly intendedAt: string
  readonly heldAt?: string
  readonly releasedAt?: string
  readonly proof?: Proof
  readonly error?: string
  /** When an obligation first could not be met. */
  readonly owedSince?: string
}

/** Why a resource counts as gone. `scan` is weak: a list of processes can miss what a kernel object cannot. */
export interface Proof {
  readonly method: string
  readonly strength: 'kernel' | 'api' | 'scan'
  readonly at: string
}

/** The result of an observation. `unknown` is not `absent`, and never permits a kill (G4). */
export type Presence =
  | { readonly is: 'present'; readonly detail?: string }
  | { readonly is: 'absent'; readonly proof: Proof }
  /** `settles`: waiting alone resolves it, for example when a listing lags behind. */
  | { readonly is: 'unknown'; readonly reason: string; readonly settles?: true }

export const present = (detail?: string): Presence => (detail === undefined ? { is: 'present' } : { is: 'present', detail })
export const absent = (proof: Proof): Presence => ({ is: 'absent', proof })
export const unknown = (reason: string): Presence => ({ is: 'unknown', reason })
export const unsettled = (reason: string): Presence => ({ is: 'unknown', reason, settles: true })
