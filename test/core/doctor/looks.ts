import type { Leftover } from '../../../src/domain/leftover/leftover.ts'
import type { Leftovers } from '../../../src/ports/leftovers.ts'
import { realClock } from '../../../src/resources/clock.ts'
import { openLeftovers } from '../../../src/resources/leftovers/leftovers.ts'
import type { Garden } from '../../support/leftovers.ts'

/** The doctor's looks, bounded to what the test has planted: beside it, other people's processes run. */

export function open(garden: Garden, graceMs = 1_000): Leftovers {
  const environment = { PATH: process.env.PATH ?? '', HOME: garden.folder, TMUX_TMPDIR: garden.folder }
  return openLeftovers({ clock: realClock, cwd: garden.folder, temp: garden.folder, environment, graceMs, only: garden.isOurs })
}

export async function found(garden: Garden): Promise<readonly Leftover[]> {
  return (await open(garden).find()).leftovers
}

export function ofPid(leftovers: readonly Leftover[], pid: number): Leftover | undefined {
  return leftovers.find(({ id }) => id.startsWith(`process:${pid}:`))
}
