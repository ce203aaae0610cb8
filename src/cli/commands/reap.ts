import { placementKeys } from '../../config/options.ts'
import type { Arguments } from '../arguments.ts'
import { type CommandDefinition, commonOptions, type Wiring } from '../command.ts'
import { openUnwatched } from '../open.ts'
import { plainOutput } from '../output.ts'
import { withStatusLine } from '../terminal/status-line.ts'

export const definition: CommandDefinition = {
  name: 'reap',
  summary: 'run one reaper pass now: find and end what no close has released',
  usage: 'ebb reap [--dry-run] [--elsewhere] [--json]',
  examples: ['ebb reap --dry-run', 'ebb reap', 'ebb reap --elsewhere --reaper-minimum-age 10m'],
  options: [...commonOptions, 'store', 'reaperMinimumAge', ...placementKeys],
  switches: ['json', 'help', 'dry-run', 'elsewhere'],
  run,
}

async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const supervisor = await openUnwatched(args, wiring)
  const { engine } = supervisor
  const dryRun = args.switches.has('dry-run')
  const isJson = args.switches.has('json')
  const pass = await withStatusLine(wiring.clock, isJson, 'looking for resources that no close has released', async () => {
    if (!dryRun) await engine.begin()
    const found = await engine.reap({ dryRun, sparesRemote: !args.switches.has('elsewhere') })
    if (!dryRun) await engine.shutDown()
    return found
  })
  await supervisor.close()
  const { out } = plainOutput()
  if (isJson) out(`${JSON.stringify(pass, null, 2)}\n`)
  else {
    const verb = dryRun ? 'found; this was a dry run' : `found, ${pass.released.length} released, ${pass.left.length} left`
    const lines = [
      pass.found.length === 0 ? 'Nothing to reap.' : `${pass.found.length} ${verb}.`,
      ...pass.released.map(({ kind, name, detail }) => `released  ${kind} ${name}: ${detail}`),
      ...pass.left.map(({ kind, name, why, detail }) => `left      ${kind} ${name} (${why}): ${detail}`),
      ...(pass.left.some(({ isSpared }) => isSpared)
        ? ['Unrecorded resources outside of this host were only listed; "ebb reap --elsewhere" ends those that are old enough.']
        : []),
      ...(pass.breakerOpen
        ? ['Most of what was found is not in the ledger, so nothing unrecorded was touched; check that --home is the right one.']
        : []),
      ...pass.errors,
    ]
    out(`${lines.join('\n')}\n`)
  }
  if (pass.errors.length > 0) return 1
  return !dryRun && pass.left.some(({ why }) => why === 'held-back' || why === 'dead-incarnation') ? 3 : 0
}
