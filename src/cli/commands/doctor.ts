import { placementKeys } from '../../config/options.ts'
import { EbbError } from '../../core/model/errors.ts'
import type { Findings, LeftoverEnd } from '../../doctor/judgement/leftover.ts'
import { totalOf } from '../../doctor/judgement/leftover.ts'
import type { Arguments } from '../arguments.ts'
import { type CommandDefinition, commonOptions, type Wiring } from '../command.ts'
import { fixLeftovers } from '../doctor-fix.ts'
import { type Machine, machineOf } from '../doctor-machine.ts'
import { leftoverLines, machineLines } from '../doctor-view.ts'
import { configOf } from '../open.ts'
import { openOutput, plainOutput } from '../output.ts'
import { during } from '../terminal/status-line.ts'

export const definition: CommandDefinition = {
  name: 'doctor',
  summary: 'what this machine offers, whether the settings work, and what other agent runs have left; --fix ends that',
  usage: 'ebb doctor [--fix [--yes]] [--json]',
  examples: ['ebb doctor', 'ebb doctor --json', 'ebb doctor --fix'],
  options: [...commonOptions, 'store', 'containment', ...placementKeys],
  switches: ['json', 'help', 'fix', 'yes'],
  run,
}

/** `ebb doctor`: what this machine offers, and what agent runs that Ebb did not start have left on it. Finding something is no failure. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const [isJson, fixes, isYes] = ['json', 'fix', 'yes'].map((name) => args.switches.has(name)) as [boolean, boolean, boolean]
  if (isYes && !fixes) throw new EbbError('bad_usage', '--yes is an answer to "ebb doctor --fix"; add --fix, or leave it out.')
  if (fixes && isJson && !isYes) throw new EbbError('bad_usage', '"ebb doctor --fix" asks before it ends anything; with --json, add --yes.')

  const machine = await machineOf(args, wiring)
  const leftovers = await wiring.leftovers(configOf(args, wiring))
  const found = await during(wiring.clock, isJson, 'looking for leftovers of agent runs', () => leftovers.find())
  // Who has begun to end something brings it to its end, whether or not anybody still reads of it.
  const output = fixes ? openOutput(() => {}) : plainOutput()
  if (!isJson)
    output.out([...machineLines(machine), '', ...leftoverLines(found, fixes, output.face.width)].map((line) => `${line}\n`).join(''))
  const fixed = fixes ? await fixLeftovers(found, leftovers, { output, clock: wiring.clock, isYes, isJson }) : undefined
  if (isJson) output.out(`${JSON.stringify(asJson(machine, found, fixed), null, 2)}\n`)
  if (fixed?.some(({ outcome }) => outcome === 'left')) return 3
  return machine.settings.every(({ isGood }) => isGood) ? 0 : 1
}

function asJson(machine: Machine, { leftovers, unseen }: Findings, fixed: readonly LeftoverEnd[] | undefined): object {
  const fixable = leftovers.filter((one) => one.fixes)
  return { ...machine, leftovers, unseen, totals: { found: totalOf(leftovers), fixable: totalOf(fixable) }, ...(fixed && { fixed }) }
}
