import type { Seen } from '../../test/support/world.ts'
import type { Place } from './place.ts'
import type { Launch } from './way.ts'

/** Something to be stopped. */
export interface Program {
  readonly name: string
  readonly title: string
  readonly kind: 'zoo' | 'agent'
  readonly missing?: () => string | undefined
  /** A program that can do so waits at the gate, a pipe, until somebody opens it for writing. */
  prepare(place: Place, gate?: string): Promise<Prepared>
}

export interface Prepared extends AsyncDisposable {
  readonly launch: Launch
  /** It is at the gate. */
  waits?(): boolean
  /** It stands as it should: without this a program that failed to start would count as well stopped. */
  stands(tree: readonly Seen[]): boolean
}

/** The least that programs need; HOME, TMPDIR and the working directory are of this measurement alone. */
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
