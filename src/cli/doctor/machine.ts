import type { Arguments } from '../arguments.ts'
import type { Wiring } from '../command.ts'
import { openUnwatched } from '../open.ts'

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

export function machineLines({ node, platform, home, containment, containments, providers, settings }: Machine): readonly string[] {
  return [
    `Node         ${node} on ${platform}`,
    `Home         ${home}`,
    `Containment  ${containment}`,
    ...containments.map(({ name, available, reason, remedy }) =>
      available ? `  ${name.padEnd(10)} available` : `  ${name.padEnd(10)} not available: ${reason ?? 'unknown'}. ${remedy ?? ''}`,
    ),
    'Providers',
    ...providers.map(({ type, program, path }) => `  ${type.padEnd(11)} ${path ?? `not installed: ${program} is not on the PATH`}`),
    ...(settings.length > 0 ? ['Settings'] : []),
    ...settings.map(({ setting, isGood, says }) => `  ${setting.padEnd(22)} ${isGood ? 'good' : 'BAD '}  ${says}`),
  ]
}
