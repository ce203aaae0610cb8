import type { Config } from '../config/config.ts'
import { within } from '../core/engine/race.ts'
import { lineLog } from '../core/ports/log.ts'
import { readLaunch } from '../server/http/launch.ts'
import type { AgentBackend } from './agent-backend.ts'
import type { Wiring } from './command.ts'
import { armFailSafe } from './fail-safe.ts'

/** What one look brings at most. */
const pageSize = 1_000

/** How long a finished run waits for the recovery of earlier ones; what is left then is for the next start. */
const recoveryPatienceMs = 2_000

/**
 * An engine in this process, for one agent. A SIGKILL of it leaves nothing that runs: the sentinel sees to that. What the
 * engine logs is told to whoever has the terminal.
 */
export async function openOwnBackend(config: Config, wiring: Wiring, tell: (line: string) => void): Promise<AgentBackend> {
  const supervisor = await wiring.compose(config, { log: lineLog(config.logLevel, tell) })
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
      `the end of ${id === undefined ? 'the launch' : `the agent ${id}`} is not proven; what runs of it is killed, and the sentinel carries on: "ebb status" shows what is left.`,
    leave: async (isClean) => {
      await within(clock, recoveryPatienceMs, recovering)
      // What did not go in its own time would only be asked all over again; the sentinel carries on when we have left.
      const report = isClean ? await engine.shutDown() : undefined
      failSafe.disarm()
      await control.close()
      await supervisor.close()
      return report?.success ?? false
    },
  }
}
