import type { Config } from '../../config/config.ts'
import { isEbbError } from '../../domain/errors.ts'
import { type Status, worldStatus } from '../../engine/status.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'
import { connect, findServer } from './client.ts'
import { configOf } from './open.ts'
import { plainOutput } from './output.ts'
import { many } from './render.ts'

/** `ebb status`: is the world clean? Seen with our own eyes; a server that was named is asked, because its world is another. */
export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const status = config.url === undefined ? await lookAround(config, wiring) : await askServer(config)
  const { out } = plainOutput()
  out(args.switches.has('json') ? `${JSON.stringify(status, null, 2)}\n` : `${linesOf(status).join('\n')}\n`)
  return status.stuck.length + status.heldBack.length + status.leaks.length > 0 ? 3 : 0
}

async function askServer(config: Config): Promise<Status> {
  return await (await connect(config)).get('/cleanup/status')
}

async function lookAround(config: Config, wiring: Wiring): Promise<Status> {
  const activeSubscriptions = await countSubscriptions(config)
  const supervisor = await wiring.compose(config, { watched: false })
  const status = await worldStatus(supervisor.engine.parts, {
    runningProcesses: supervisor.runningProcesses,
    rows: () => supervisor.agents.totals(undefined, new Set()),
    activeSubscriptions: () => activeSubscriptions,
  })
  await supervisor.close()
  return status
}

/** Only the server of the home knows; a server that does not answer, or not to us, keeps nobody from looking. */
async function countSubscriptions(config: Config): Promise<number> {
  try {
    const status = await (await findServer(config))?.get<Status>('/cleanup/status')
    return status?.activeSubscriptions ?? 0
  } catch (error) {
    if (isEbbError(error)) return 0
    throw error
  }
}

function linesOf(status: Status): readonly string[] {
  const { agentCount, messageCount, runningProcesses, activeSubscriptions } = status
  return [
    status.isClean
      ? 'The world is clean.'
      : `${[
          many(agentCount, 'agent'),
          many(messageCount, 'message'),
          many(runningProcesses, 'process', 'processes'),
          many(activeSubscriptions, 'subscription'),
        ].join(', ')}.`,
    ...Object.entries(status.resources).map(
      ([kind, { held, closing, stuck }]) => `  ${kind.padEnd(14)} held ${held}, closing ${closing}, stuck ${stuck}`,
    ),
    ...status.stuck.map((one) => `stuck      ${one}`),
    ...status.heldBack.map((one) => `held back  ${one}`),
    ...status.leaks.map((one) => `leak       ${one}`),
  ]
}
