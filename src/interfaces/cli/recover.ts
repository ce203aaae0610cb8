import { leftOver } from '../../domain/report.ts'
import type { Engine } from '../../engine/engine.ts'
import { backoffMs, noop, pause } from '../../engine/race.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'
import { openQuietly } from './open.ts'

/** A process that was killed is gone within milliseconds, unless it is stuck in the kernel; then it is not dead. */
const dyingBudgetMs = 10_000

export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const supervisor = await openQuietly(args, wiring)
  await supervisor.engine.begin()
  await untilDead(supervisor.engine, process.env.SENTINEL_OF)
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

/** Who closed its files, which is what a sentinel sees, is dying; on a busy machine its last thread may still be there. */
async function untilDead({ parts: { clock, host } }: Engine, incarnation: string | undefined): Promise<void> {
  if (incarnation === undefined) return
  const untilMs = clock.now() + dyingBudgetMs
  for (let attempt = 1; host.vitality(incarnation) === 'alive' && clock.now() < untilMs; attempt++)
    await pause(clock, backoffMs(attempt, 100), new Promise(noop))
}
