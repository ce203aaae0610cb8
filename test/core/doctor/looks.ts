import type { Leftover } from '../../../src/doctor/judgement/leftover.ts'
import type { Leftovers } from '../../../src/doctor/leftovers-port.ts'
import { openLeftovers } from '../../../src/doctor/search/leftovers.ts'
import { realClock } from '../../../src/host/clock.ts'
import { realEffects } from '../../../src/host/effects.ts'
import type { Garden } from '../../support/leftovers.ts'

/** Opens the doctor's search, restricted to the processes of the test: other processes run on the same machine. */

export function open(garden: Garden, graceMs = 1_000): Leftovers {
  const environment = { PATH: process.env.PATH ?? '', HOME: garden.folder, TMUX_TMPDIR: garden.folder }
  return openLeftovers({
    clock: realClock,
    effects: realEffects,
    cwd: garden.folder,
    temp: garden.folder,
    environment,
    graceMs,
    only: garden.isOurs,
  })
}

export async function found(garden: Garden): Promise<readonly Leftover[]> {
  return (await open(garden).find()).leftovers
}

export function ofPid(leftovers: readonly Leftover[], pid: number): Leftover | undefined {
  return leftovers.find(({ id }) => id.startsWith(`process:${pid}:`))
}
