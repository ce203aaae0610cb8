import type { Arguments } from '../arguments.ts'
import type { Wiring } from '../cli.ts'
import { openQuietly } from '../open.ts'
import { plainOutput } from '../output.ts'
import { during } from '../terminal/status-line.ts'

export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const supervisor = await openQuietly(args, wiring)
  const { engine } = supervisor
  const dryRun = args.switches.has('dry-run')
  const isJson = args.switches.has('json')
  const pass = await during(wiring.clock, isJson, 'looking for what nobody closed', async () => {
    if (!dryRun) await engine.begin()
    const found = await engine.reap({ dryRun, sparesRemote: !args.switches.has('elsewhere') })
    if (!dryRun) await engine.shutDown()
    return found
  })
  await supervisor.close()
  const { out } = plainOutput()
  if (isJson) out(`${JSON.stringify(pass, null, 2)}\n`)
  else {
    const verb = dryRun ? 'would be looked at' : `found, ${pass.released.length} released, ${pass.left.length} left`
    const lines = [
      pass.found.length === 0 ? 'Nothing to reap.' : `${pass.found.length} ${verb}.`,
      ...pass.released.map((one) => `released  ${one.kind} ${one.name}: ${one.detail}`),
      ...pass.left.map((one) => `left      ${one.kind} ${one.name} (${one.why}): ${one.detail}`),
      ...(pass.left.some(({ isSpared }) => isSpared)
        ? ['What is not on this host and on no books was only shown; "ebb reap --elsewhere" ends it, once it is old enough.']
        : []),
      ...(pass.breakerOpen
        ? ['Most of what was found is on no books, so nothing unrecorded was touched: check that --home is the right one.']
        : []),
      ...pass.errors,
    ]
    out(`${lines.join('\n')}\n`)
  }
  if (pass.errors.length > 0) return 1
  return !dryRun && pass.left.some((one) => one.why === 'held-back' || one.why === 'dead-incarnation') ? 3 : 0
}
