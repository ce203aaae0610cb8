/** One thing in the world that must not outlive its scope. */
export type ResourceState = 'intended' | 'held' | 'closing' | 'released' | 'stuck'

/** What happens to a resource when its supervisor is lost. */
export type OnLoss = 'end' | 'keep'

/** The ledger's record of a resource, written before the resource exists (G1). */
export interface Intent<Spec = unknown> {
  readonly id: string
  readonly scopeId: string
  readonly incarnation: string
  readonly kind: string
  readonly spec: Spec
  /** What only the world could tell (an inode, a pid); absent until the resource was seen to exist. */
  readonly detail?: unknown
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
  /** When something that is owed could first not be done. */
  readonly owedSince?: string
}

/** Why we say that a resource is gone. `scan` is weak: a scan can miss what a kernel object cannot. */
export interface Proof {
  readonly method: string
  readonly strength: 'kernel' | 'api' | 'scan'
  readonly at: string
}

/** What an observation of the world says. `unknown` is never absent, and never a licence to kill (G4). */
export type Presence =
  | { readonly is: 'present'; readonly detail?: string }
  | { readonly is: 'absent'; readonly proof: Proof }
  /** `settles`: by waiting alone, such as for a listing to catch up. */
  | { readonly is: 'unknown'; readonly reason: string; readonly settles?: true }

export const present = (detail?: string): Presence => (detail === undefined ? { is: 'present' } : { is: 'present', detail })
export const absent = (proof: Proof): Presence => ({ is: 'absent', proof })
export const unknown = (reason: string): Presence => ({ is: 'unknown', reason })
export const unsettled = (reason: string): Presence => ({ is: 'unknown', reason, settles: true })
