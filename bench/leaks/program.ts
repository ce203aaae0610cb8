import type { Seen } from '../../test/support/world.ts'
import type { Place } from './place.ts'
import type { Launch } from './way.ts'

/** A program that a measurement runs and stops. */
export interface Program {
  readonly name: string
  readonly title: string
  readonly kind: 'zoo' | 'agent'
  readonly missing?: () => string | undefined
  /** `gate` is a pipe. A program that supports gates waits at the gate until the pipe is opened for writing. */
  prepare(place: Place, gate?: string): Promise<Prepared>
}

export interface Prepared extends AsyncDisposable {
  readonly launch: Launch
  /** Whether the program waits at the gate. */
  isAtGate?(): boolean
  /** Whether the program has reached the state in which it is to be stopped. Without this check a failed start would count as a good stop. */
  isReady(tree: readonly Seen[]): boolean
}

/** The minimal environment of a program. HOME, TMPDIR and the working directory belong to this measurement only. */
export function environmentOf(place: Place, path: string): Record<string, string> {
  return {
    PATH: path,
    HOME: place.home,
    TMPDIR: place.temp,
    LANG: 'C.UTF-8',
    EBB_TEST_MARK: place.mark,
    EBB_TEST_LEASH: place.leashPath,
  }
}
