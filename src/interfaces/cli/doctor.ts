import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'
import { openQuietly } from './open.ts'

export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const supervisor = await openQuietly(args, wiring)
  await supervisor.close()
  const facts = {
    node: process.version,
    platform: process.platform,
    home: supervisor.home.directory,
    containment: supervisor.containment,
    containments: supervisor.availability,
  }
  if (args.switches.has('json')) process.stdout.write(`${JSON.stringify(facts, null, 2)}\n`)
  else {
    const lines = [
      `Node         ${facts.node} on ${facts.platform}`,
      `Home         ${facts.home}`,
      `Containment  ${facts.containment}`,
      ...facts.containments.map(({ name, available, reason, remedy }) =>
        available ? `  ${name.padEnd(10)} available` : `  ${name.padEnd(10)} not available: ${reason ?? 'unknown'}. ${remedy ?? ''}`,
      ),
    ]
    process.stdout.write(`${lines.join('\n')}\n`)
  }
  return 0
}
