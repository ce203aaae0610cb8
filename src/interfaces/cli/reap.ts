import { Reaper } from '../../engine/reap.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'
import { openQuietly } from './open.ts'

export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const supervisor = await openQuietly(args, wiring)
  const { engine, config } = supervisor
  const dryRun = args.switches.has('dry-run')
  if (!dryRun) await engine.begin()
  const reaper = new Reaper(engine.parts, { intervalMs: config.reaperInterval, minimumAgeMs: config.reaperMinimumAge })
  const pass = await reaper.pass({ dryRun })
  if (!dryRun) await engine.shutDown()
  await supervisor.close()
  if (args.switches.has('json')) process.stdout.write(`${JSON.stringify(pass, null, 2)}\n`)
  else {
    const verb = dryRun ? 'would be looked at' : `found, ${pass.released.length} released, ${pass.left.length} left`
    const lines = [
      pass.found.length === 0 ? 'Nothing to reap.' : `${pass.found.length} ${verb}.`,
      ...pass.released.map((one) => `released  ${one.kind} ${one.name}: ${one.detail}`),
      ...pass.left.map((one) => `left      ${one.kind} ${one.name} (${one.why}): ${one.detail}`),
      ...(pass.breakerOpen
        ? ['Most of what was found is on no books, so nothing unrecorded was touched: check that --home is the right one.']
        : []),
      ...pass.errors,
    ]
    process.stdout.write(`${lines.join('\n')}\n`)
  }
  if (pass.errors.length > 0) return 1
  return !dryRun && pass.left.some((one) => one.why === 'held-back' || one.why === 'dead-incarnation') ? 3 : 0
}
