import type { Supervisor } from '../../main.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'

/** For commands that look, or finish what others began: they make nothing of their own, so no sentinel watches them. */
export function openQuietly(args: Arguments, wiring: Wiring): Promise<Supervisor> {
  const config = wiring.loadConfig({ flags: args.flags, ...(args.configFile !== undefined && { configFile: args.configFile }) })
  return wiring.compose(config, { watched: false })
}
