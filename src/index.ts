import { loadConfig } from './config/config.ts'
import { EbbError, isEbbError } from './core/model/errors.ts'
import { Ebb } from './library/ebb.ts'
import { compose } from './main.ts'

/** The public API of the library: the only module that programs import. */

export interface OpenOptions {
  /** The folder of database and logs. Default: as for the command line. */
  readonly home?: string
  readonly containment?: 'auto' | 'cgroup' | 'subreaper' | 'scan'
  readonly logLevel?: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** A file with settings, such as those of `docker` and `ecs`. Default: `ebb.config.json` in the home. */
  readonly config?: string
}

/** Opens Ebb in this process, and recovers earlier runs that died. Use it with `await using`. */
export async function openEbb({ config: configFile, ...options }: OpenOptions = {}): Promise<Ebb> {
  const flags = new Map(Object.entries(options).filter((entry): entry is [string, string] => entry[1] !== undefined))
  const config = loadConfig({ flags, ...(configFile !== undefined && { configFile }) })
  const supervisor = await compose(config)
  const { engine, home } = supervisor
  try {
    await engine.begin()
  } catch (error) {
    // This incarnation has no record in the ledger, so its sentinel has nothing to watch or recover.
    engine.abandon()
    await supervisor.close()
    // The id of the host scope is derived from this process, so an existing scope was opened by this process.
    if (!isEbbError(error, 'scope_closed')) throw error
    const text = `This process has Ebb already open on the home ${home.directory}; use that instance, or another home.`
    throw new EbbError('bad_usage', text, { cause: error })
  }
  try {
    await engine.recover()
    return new Ebb(supervisor, await supervisor.control())
  } catch (error) {
    await engine.shutDown()
    await supervisor.close()
    throw error
  }
}

export type { Status } from './core/engine/api.ts'
export type { AgentStatus } from './core/model/agent.ts'
export { EbbError, type ErrorCode } from './core/model/errors.ts'
export type { Message } from './core/model/message.ts'
export type { Report, ResourceReport, StepTaken } from './core/model/report.ts'
export type { Proof } from './core/model/resource.ts'
export type { Agent, LaunchOptions, StopOptions } from './library/agent.ts'
export type { CleanupOptions, Ebb, Request, RequestOptions } from './library/ebb.ts'
