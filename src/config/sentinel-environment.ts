import { recoveryEnvironment } from '../placements/registry.ts'
import type { Config } from './config.ts'
import { databaseIn } from './home.ts'

/** A runner or an endpoint of AWS may have a certificate that only these make Node trust. */
const trustVariables = ['NODE_EXTRA_CA_CERTS']

/** The environment of a sentinel: what its recovery needs to find the ledger and every resource, and nothing else of the user's. */
export function sentinelEnvironment(config: Config): Record<string, string> {
  const { environment, home, store, limitLog, limitMessages } = config
  const kept = ['PATH', 'HOME', 'TMPDIR', 'EBB_SCOPE', 'LD_LIBRARY_PATH', ...trustVariables]
  return {
    ...Object.fromEntries(kept.flatMap((name) => (environment[name] === undefined ? [] : [[name, environment[name]]]))),
    // Named even when it is the default: a server may run on the home by then that keeps its records in another place.
    EBB_STORE: `sqlite:${store ?? databaseIn(home)}`,
    ...recoveryEnvironment(config, environment),
    EBB_LIMIT_LOG: String(limitLog),
    EBB_LIMIT_MESSAGES: String(limitMessages),
  }
}
