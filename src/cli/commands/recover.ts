import { existsSync } from 'node:fs'
import { placementKeys } from '../../config/options.ts'
import { othersRecoveryMs, type Recovery } from '../../core/engine/api.ts'
import { backoffMs, noop, pause } from '../../core/engine/race.ts'
import { leftOver } from '../../core/model/report.ts'
import type { Runtime } from '../../core/ports/runtime.ts'
import type { Arguments } from '../arguments.ts'
import { type CommandDefinition, commonOptions, type Wiring } from '../command.ts'
import { configOf, openUnwatched } from '../open.ts'
import { plainOutput } from '../output.ts'
import { withStatusLine } from '../terminal/status-line.ts'
import { many } from '../terminal/text.ts'

export const definition: CommandDefinition = {
  name: 'recover',
  summary: 'finish what dead supervisors left on this host; safe at any time',
  usage: 'ebb recover [--json]',
  examples: ['ebb recover'],
  options: [...commonOptions, 'store', ...placementKeys],
  switches: ['json', 'help'],
  run,
}

/** How long to wait for the death of a supervisor. A killed process is gone within milliseconds, unless it is stuck in the kernel. */
const dyingBudgetMs = 10_000

async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const isJson = args.switches.has('json')
  // Without a home there is nothing to recover. A sentinel must not create a home again that was removed.
  const recovery = existsSync(configOf(args, wiring).home) ? await recover(args, wiring, isJson) : nothing
  const { out } = plainOutput()
  const left = recovery.reports.flatMap(leftOver)
  if (isJson) out(`${JSON.stringify(recovery, null, 2)}\n`)
  else {
    const released = recovery.reports.flatMap((report) => report.resources).length - left.length
    const lines = [
      recovery.reports.length === 0
        ? 'Nothing to recover.'
        : `Recovered ${many(recovery.reports.length, 'scope')} of dead supervisors: ${many(released, 'resource')} released, ${left.length} left.`,
      ...left.map(({ kind, name, error, outcome }) => `stuck    ${kind} ${name}: ${error ?? outcome}`),
      ...recovery.unknown.map((id) => `unknown  incarnation ${id} ran in another pid namespace; run "ebb recover" there`),
      ...recovery.elsewhere.map((id) => `busy     incarnation ${id} is being recovered by another process; run "ebb recover" again`),
      ...recovery.errors,
    ]
    out(`${lines.join('\n')}\n`)
  }
  if (left.length > 0) return 3
  return recovery.errors.length > 0 || recovery.elsewhere.length > 0 ? 1 : 0
}

const nothing: Recovery = { reports: [], unknown: [], elsewhere: [], errors: [] }

async function recover(args: Arguments, wiring: Wiring, isJson: boolean): Promise<Recovery> {
  const supervisor = await openUnwatched(args, wiring)
  const { engine } = supervisor
  const recovery = await withStatusLine(wiring.clock, isJson, 'recovering from dead supervisors', async () => {
    await engine.begin()
    const sentinelOf = process.env.SENTINEL_OF
    await untilDead(supervisor, sentinelOf)
    const found = await engine.recover(sentinelOf === undefined ? { waitMs: othersRecoveryMs } : {})
    await engine.shutDown()
    return found
  })
  await supervisor.close()
  return recovery
}

/**
 * Waits for the death of the sentinel's supervisor. The sentinel notices the death when the supervisor's files are closed. On a
 * busy machine, the last thread of the supervisor may exit a little later.
 */
async function untilDead({ clock, host }: Runtime, incarnation: string | undefined): Promise<void> {
  if (incarnation === undefined) return
  const untilMs = clock.now() + dyingBudgetMs
  for (let attempt = 1; host.vitality(incarnation) === 'alive' && clock.now() < untilMs; attempt++)
    await pause(clock, backoffMs(attempt, 100), new Promise(noop))
}
