import type { Config } from '../config/config.ts'
import { storeOfServer } from '../config/server-file.ts'
import type { Supervisor } from '../supervisor.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './command.ts'

/**
 * One home, one set of records: who was told of none takes those of the home's server, or what one keeps would look to the
 * other like something that nobody knows.
 */
export function configOf(args: Arguments, wiring: Wiring): Config {
  const config = wiring.loadConfig({ flags: args.flags, ...(args.configFile !== undefined && { configFile: args.configFile }) })
  const store = config.store ?? storeOfServer(config.home)
  return Object.freeze({ ...config, store })
}

/** For commands that look, or finish what others began: they make nothing of their own, so no sentinel watches them. */
export function openQuietly(args: Arguments, wiring: Wiring): Promise<Supervisor> {
  return wiring.compose(configOf(args, wiring), { watched: false })
}
