import type { Arguments } from './arguments.ts'
import type { Wiring } from './command.ts'
import { openUnwatched } from './open.ts'

export type Machine = Awaited<ReturnType<typeof machineOf>>

export async function machineOf(args: Arguments, wiring: Wiring) {
  const supervisor = await openUnwatched(args, wiring)
  const settings = await supervisor.checkSettings()
  await supervisor.close()
  return {
    node: process.version,
    platform: process.platform,
    home: supervisor.home.directory,
    containment: supervisor.containment,
    containments: supervisor.availability,
    providers: await wiring.programs(supervisor.config),
    settings,
  }
}
