import { placementKeys } from '../../config/options.ts'
import { EbbError } from '../../core/model/errors.ts'
import type { Findings, LeftoverEnd } from '../../doctor/judgement/leftover.ts'
import { totalOf } from '../../doctor/judgement/leftover.ts'
import type { Arguments } from '../arguments.ts'
import { type CommandDefinition, commonOptions, type Wiring } from '../command.ts'
import { fixLeftovers } from '../doctor/fix.ts'
import { leftoverLines } from '../doctor/leftovers.ts'
import { type Machine, machineLines, machineOf } from '../doctor/machine.ts'
import { configOf } from '../open.ts'
import { openOutput, plainOutput } from '../output.ts'
import { withStatusLine } from '../terminal/status-line.ts'

export const definition: CommandDefinition = {
  name: 'doctor',
  summary: 'check this machine and the settings, and find leftovers of agent runs that Ebb did not start; --fix ends them',
  usage: 'ebb doctor [--fix [--yes]] [--json]',
  examples: ['ebb doctor', 'ebb doctor --json', 'ebb doctor --fix'],
  options: [...commonOptions, 'store', 'containment', ...placementKeys],
  switches: ['json', 'help', 'fix', 'yes'],
  run,
}

/** Leftovers that are found do not change the exit code. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const [isJson, fixes, isYes] = ['json', 'fix', 'yes'].map((name) => args.switches.has(name)) as [boolean, boolean, boolean]
  if (isYes && !fixes) throw new EbbError('bad_usage', '--yes needs --fix; add --fix, or leave out --yes.')
  if (fixes && isJson && !isYes) throw new EbbError('bad_usage', '"ebb doctor --fix" asks before it ends anything; with --json, add --yes.')

  const machine = await machineOf(args, wiring)
  const leftovers = await wiring.leftovers(configOf(args, wiring))
  const found = await withStatusLine(wiring.clock, isJson, 'looking for leftovers of agent runs', () => leftovers.find())
  // With --fix, a closed output does not end the command: a leftover that is being ended must be ended completely.
  const output = fixes ? openOutput(() => {}) : plainOutput()
  if (!isJson)
    output.out([...machineLines(machine), '', ...leftoverLines(found, fixes, output.style.width)].map((line) => `${line}\n`).join(''))
  const fixed = fixes ? await fixLeftovers(found, leftovers, { output, clock: wiring.clock, isYes, isJson }) : undefined
  if (isJson) output.out(`${JSON.stringify(asJson(machine, found, fixed), null, 2)}\n`)
  if (fixed?.some(({ outcome }) => outcome === 'left')) return 3
  return machine.settings.every(({ isGood }) => isGood) ? 0 : 1
}

function asJson(machine: Machine, { leftovers, unseen }: Findings, fixed: readonly LeftoverEnd[] | undefined): object {
  const fixable = leftovers.filter(({ fixes }) => fixes)
  return { ...machine, leftovers, unseen, totals: { found: totalOf(leftovers), fixable: totalOf(fixable) }, ...(fixed && { fixed }) }
}
