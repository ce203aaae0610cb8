import { createInterface } from 'node:readline/promises'
import { EbbError } from '../../core/model/errors.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Findings, Leftover, LeftoverEnd } from '../../doctor/judgement/leftover.ts'
import type { Leftovers } from '../../doctor/leftovers-port.ts'
import type { Output } from '../output.ts'
import { withStatusLine } from '../terminal/status-line.ts'
import { many } from '../terminal/text.ts'
import { endLines } from './leftovers.ts'

/** `ebb doctor --fix`: asks for a confirmation, ends the leftovers that were listed, and prints the proof. Without a yes it ends nothing. */
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
  if (!isYes && !(await isConfirmed(chosen, clock))) {
    output.out('Nothing was done.\n')
    return []
  }
  const ended = await withStatusLine(clock, isJson, `ending ${many(chosen.length, 'leftover')}`, () => end(chosen))
  if (!isJson) output.out(`${endLines(ended).join('\n')}\n`)
  return ended
}

/** The time limit for an answer from a pipe, which is available at once. Without a limit, a pipe without a writer would block for ever. */
const answerMs = 5_000

/** Asks for a yes. The answer may also come through a pipe, such as `yes |`. */
async function isConfirmed(chosen: readonly Leftover[], clock: Clock): Promise<boolean> {
  const prompt = createInterface({ input: process.stdin, output: process.stdout })
  const answered = new AbortController()
  if (!process.stdin.isTTY) clock.after(answerMs, answered.signal, () => prompt.close())
  // Ctrl-C and the end of the input count as a no. No Enter was echoed then, so a line break is written below.
  const closed = new Promise<undefined>((resolve) => prompt.once('close', () => resolve(undefined)))
  try {
    const answer = await Promise.race([prompt.question(`End ${chosen.length === 1 ? 'it' : `these ${chosen.length}`}? [y/N] `), closed])
    if (answer === undefined) process.stdout.write('\n')
    if (answer === undefined && !process.stdin.isTTY)
      throw new EbbError(
        'bad_usage',
        '"ebb doctor --fix" asks before it ends anything, and it received no answer; use a terminal, or add --yes.',
      )
    return /^y(es)?$/i.test(answer?.trim() ?? '')
  } finally {
    answered.abort()
    prompt.close()
  }
}
