import { recoveryEnvironment } from '../placements/registry.ts'
import type { Config } from './config.ts'
import { databaseIn } from './home.ts'

/** A runner or an AWS endpoint may use a private certificate authority. Node trusts such an authority only through these variables. */
const trustVariables = ['NODE_EXTRA_CA_CERTS']

/** The environment of a sentinel: the variables that its recovery needs to find the ledger and every resource, and no others of the user. */
export function sentinelEnvironment(config: Config): Record<string, string> {
  const { environment, home, store, limitLog, limitMessages } = config
  const kept = ['PATH', 'HOME', 'TMPDIR', 'EBB_SCOPE', 'LD_LIBRARY_PATH', ...trustVariables]
  return {
    ...Object.fromEntries(kept.flatMap((name) => (environment[name] === undefined ? [] : [[name, environment[name]]]))),
    // The store is named even when it is the default one, because a server with another store may run on the home by the time of the
    // recovery.
    EBB_STORE: `sqlite:${store ?? databaseIn(home)}`,
    ...recoveryEnvironment(config, environment),
    EBB_LIMIT_LOG: String(limitLog),
    EBB_LIMIT_MESSAGES: String(limitMessages),
  }
}
