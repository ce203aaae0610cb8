import { worldStatus } from '../../engine/status.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'
import { openQuietly } from './open.ts'

export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const supervisor = await openQuietly(args, wiring)
  const status = await worldStatus(supervisor.engine.parts, supervisor)
  await supervisor.close()
  if (args.switches.has('json')) process.stdout.write(`${JSON.stringify(status, null, 2)}\n`)
  else {
    const lines = [
      status.isClean ? 'The world is clean.' : `${status.agentCount} agents, ${status.runningProcesses} processes.`,
      ...Object.entries(status.resources).map(
        ([kind, { held, closing, stuck }]) => `  ${kind.padEnd(14)} held ${held}, closing ${closing}, stuck ${stuck}`,
      ),
      ...status.stuck.map((one) => `stuck      ${one}`),
      ...status.heldBack.map((one) => `held back  ${one}`),
      ...status.leaks.map((one) => `leak       ${one}`),
    ]
    process.stdout.write(`${lines.join('\n')}\n`)
  }
  return status.stuck.length + status.heldBack.length + status.leaks.length > 0 ? 3 : 0
}
