import { docker } from './docker/definition.ts'
import { ecs } from './ecs/definition.ts'
import { processes } from './process/definition.ts'
import { remote } from './remote/definition.ts'
import { tmux } from './tmux/definition.ts'

/** Every placement. A new one is a folder with a definition, and a line here. */
export const definitions = [processes, tmux, docker, ecs, remote] as const
