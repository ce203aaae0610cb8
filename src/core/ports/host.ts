import type { Incarnation, Vitality } from '../model/identity.ts'

/** This machine, as supervisors see it. */
export interface Host {
  readonly installation: string
  /** The identity of this process. */
  readonly incarnation: Incarnation
  readonly incarnationId: string
  /** Supervisors in whose process trees this process runs. */
  readonly outerIncarnations?: ReadonlySet<string>
  /** Whether the process behind an incarnation's id is alive. `unknown` when that cannot be observed, as in another pid namespace. */
  vitality(incarnationId: string): Vitality
  /** True when the incarnation is of the current boot. Processes of an earlier boot are gone. */
  isThisBoot(incarnationId: string): boolean
}

/** The small process that notices this process's death and starts the recovery. */
export interface Sentinel {
  /** Resolves when the sentinel watches. Called before the first intent is written. */
  ready(): Promise<void>
  /** Ends the sentinel without a recovery. Called when the ledger has nothing left for one. */
  dismiss(): void
}
