import type { Config } from '../../config/config.ts'
import type { Supervisor } from '../../main.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'

export function configOf(args: Arguments, wiring: Wiring): Config {
  return wiring.loadConfig({ flags: args.flags, ...(args.configFile !== undefined && { configFile: args.configFile }) })
}

/** For commands that look, or finish what others began: they make nothing of their own, so no sentinel watches them. */
export function openQuietly(args: Arguments, wiring: Wiring): Promise<Supervisor> {
  return wiring.compose(configOf(args, wiring), { watched: false })
}
