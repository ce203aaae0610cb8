import type { Incarnation, Vitality } from '../model/identity.ts'

/** This machine, as far as supervisors are concerned. */
export interface Host {
  readonly installation: string
  /** Our own life. */
  readonly incarnation: Incarnation
  readonly incarnationId: string
  /** Supervisors whose trees we are part of ourselves. */
  readonly outerIncarnations?: ReadonlySet<string>
  /** Does the process behind an incarnation's id still live? Another pid namespace is `unknown`. */
  vitality(incarnationId: string): Vitality
  /** Was it of this boot? If not, the kernel that held its processes is gone. */
  isThisBoot(incarnationId: string): boolean
}

/** The tiny process that notices our death and starts the recovery. */
export interface Sentinel {
  /** Resolves when the sentinel watches; called before the first intent. */
  ready(): Promise<void>
  /** The books are closed: the sentinel leaves without doing anything. */
  dismiss(): void
}
