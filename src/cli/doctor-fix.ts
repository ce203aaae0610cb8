import { createInterface } from 'node:readline/promises'
import { EbbError } from '../core/model/errors.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Findings, Leftover, LeftoverEnd } from '../doctor/judgement/leftover.ts'
import type { Leftovers } from '../doctor/leftovers-port.ts'
import { endLines } from './doctor-view.ts'
import type { Output } from './output.ts'
import { during } from './terminal/status-line.ts'
import { many } from './terminal/text.ts'

/** `--fix`: what was shown is asked about, ended, and told with its proof. Without a clear yes nothing happens. */
export interface Fixing {
  readonly output: Output
  readonly clock: Clock
  readonly isYes: boolean
  readonly isJson: boolean
}

export async function fixLeftovers(
  { leftovers }: Findings,
  { end }: Leftovers,
  { output, clock, isYes, isJson }: Fixing,
): Promise<readonly LeftoverEnd[]> {
  const chosen = leftovers.filter(({ fixes }) => fixes)
  if (chosen.length === 0) return []
  if (!isYes && !(await isAgreed(chosen, clock))) {
    output.out('Nothing was done.\n')
    return []
  }
  const ended = await during(clock, isJson, `ending ${many(chosen.length, 'leftover')}`, () => end(chosen))
  if (!isJson) output.out(`${endLines(ended).join('\n')}\n`)
  return ended
}

/** Who answers through a pipe has the answer ready; an open one that nobody writes to would be waited for for ever. */
const answerMs = 5_000

/** Also by what comes through a pipe, such as `yes |`. */
async function isAgreed(chosen: readonly Leftover[], clock: Clock): Promise<boolean> {
  const asked = createInterface({ input: process.stdin, output: process.stdout })
  const answered = new AbortController()
  if (!process.stdin.isTTY) clock.after(answerMs, answered.signal, () => asked.close())
  // Ctrl-C and the end of the input are a no, too; nobody has pressed Enter then.
  const closed = new Promise<undefined>((resolve) => asked.once('close', () => resolve(undefined)))
  try {
    const answer = await Promise.race([asked.question(`End ${chosen.length === 1 ? 'it' : `these ${chosen.length}`}? [y/N] `), closed])
    if (answer === undefined) process.stdout.write('\n')
    if (answer === undefined && !process.stdin.isTTY)
      throw new EbbError('bad_usage', '"ebb doctor --fix" asks before it ends anything, and nobody answered; use a terminal, or add --yes.')
    return /^y(es)?$/i.test(answer?.trim() ?? '')
  } finally {
    answered.abort()
    asked.close()
  }
}
