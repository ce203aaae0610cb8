import { leftOver } from '../../domain/report.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'
import { openQuietly } from './open.ts'

export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const supervisor = await openQuietly(args, wiring)
  await supervisor.engine.begin()
  const recovery = await supervisor.engine.recover()
  await supervisor.engine.shutDown()
  await supervisor.close()
  const left = recovery.reports.flatMap(leftOver)
  if (args.switches.has('json')) process.stdout.write(`${JSON.stringify(recovery, null, 2)}\n`)
  else {
    const released = recovery.reports.flatMap((report) => report.resources).length - left.length
    const lines = [
      recovery.reports.length === 0
        ? 'Nothing to recover.'
        : `Recovered ${recovery.reports.length} scopes of dead supervisors: ${released} resources released, ${left.length} left.`,
      ...left.map((one) => `stuck    ${one.kind} ${one.name}: ${one.error ?? one.outcome}`),
      ...recovery.unknown.map((id) => `unknown  incarnation ${id} is of another pid namespace; recover it from there`),
      ...recovery.errors,
    ]
    process.stdout.write(`${lines.join('\n')}\n`)
  }
  if (left.length > 0) return 3
  return recovery.errors.length > 0 ? 1 : 0
}
