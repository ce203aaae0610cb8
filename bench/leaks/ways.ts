import type { Way } from './way.ts'
import { commandWays } from './ways/commands.ts'
import { dockerWay } from './ways/docker.ts'
import { ebbWays } from './ways/ebb.ts'
import { packageWays } from './ways/packages.ts'
import { signalWays } from './ways/signals.ts'
import { tmuxWay } from './ways/tmux.ts'

/** All ways, ordered from plain signals to containment. */
export const ways: readonly Way[] = [...signalWays, ...packageWays, tmuxWay, ...commandWays, dockerWay, ...ebbWays]
