import type { Config } from '../config/config.ts'
import { storeOfServer } from '../config/server-file.ts'
import type { Supervisor } from '../supervisor.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './command.ts'

/**
 * The configuration of a command. Without `--store` the command uses the database of the home's server. With two databases, the
 * command and the server would each report the resources of the other as unrecorded.
 */
export function configOf(args: Arguments, wiring: Wiring): Config {
  const config = wiring.loadConfig({ flags: args.flags, ...(args.configFile !== undefined && { configFile: args.configFile }) })
  const store = config.store ?? storeOfServer(config.home)
  return Object.freeze({ ...config, store })
}

/** Opens a supervisor without a sentinel, for commands that create no resources of their own. */
export function openUnwatched(args: Arguments, wiring: Wiring): Promise<Supervisor> {
  return wiring.compose(configOf(args, wiring), { watched: false })
}
