import type { Config } from '../../config/config.ts'
import { within } from '../../core/engine/race.ts'
import { lineLog } from '../../core/ports/log.ts'
import { readLaunch } from '../../server/http/launch.ts'
import type { Wiring } from '../command.ts'
import { armFailSafe } from '../exit/fail-safe.ts'
import type { AgentBackend } from './backend.ts'

/** The maximum number of messages per read. */
const pageSize = 1_000

/** How long a finished run waits for the recovery of earlier runs. The next start continues a recovery that takes longer. */
const recoveryPatienceMs = 2_000

/**
 * Runs an engine in this process for one agent. After a SIGKILL of this process, the sentinel ends everything. `writeLog`
 * receives the lines of the engine's log.
 */
export async function openOwnBackend(config: Config, wiring: Wiring, writeLog: (line: string) => void): Promise<AgentBackend> {
  const supervisor = await wiring.compose(config, { log: lineLog(config.logLevel, writeLog) })
  const failSafe = armFailSafe(supervisor, 1)
  const { engine, clock } = supervisor
  await engine.begin()
  const control = await supervisor.control()
  const { agents, store, waiting } = control
  const recovering = engine
    .recover({ releasesClaims: true })
    .catch((error: unknown) => supervisor.log.warn('Earlier runs could not be recovered.', { error: String(error) }))
  return {
    launch: async (body) => (await control.launch(readLaunch(body, undefined))).agent.id,
    agent: async (id) => (await agents.get(id)).agent,
    messages: async (id, since, waitMs) => {
      await waiting.forNews(agents, id, since, waitMs)
      return await store.messages(id, since, pageSize)
    },
    stop: (id, { force, graceMs }) => agents.stop(id, force ? { force } : { graceMs }),
    remove: (id) => agents.remove(id, {}),
    answers: async () => true,
    farewell: (id) =>
      `the end of ${id === undefined ? 'the launch' : `the agent ${id}`} is not proven; its processes are killed, and the sentinel continues the close. "ebb status" shows what is left.`,
    leave: async (isClean) => {
      await within(clock, recoveryPatienceMs, recovering)
      // A shutdown follows only a successful close. After a failed close it would only repeat the same steps, and the sentinel
      // continues after the exit.
      const report = isClean ? await engine.shutDown() : undefined
      failSafe.disarm()
      await control.close()
      await supervisor.close()
      return report?.success ?? false
    },
  }
}
