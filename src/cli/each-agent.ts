import { EbbError, errorTable, sentence } from '../core/model/errors.ts'
import { leftOver, type Report } from '../core/model/report.ts'
import { AgentIds } from './agent-id.ts'
import type { Arguments } from './arguments.ts'
import type { Client } from './client.ts'
import type { Wiring } from './command.ts'
import { plainOutput } from './output.ts'
import { statusLine } from './terminal/status-line.ts'
import { many } from './terminal/text.ts'

/** What was done with one agent: the words for a person, and what a script gets. */
export interface Done {
  readonly said: string
  readonly facts: object
}

interface Outcome {
  readonly exit: number
  readonly said: string
  readonly facts: object
}

/**
 * The same with several agents, side by side. One that fails keeps no other from its turn; what is not released is
 * listed, and weighs more in the exit code than what was not found.
 */
export async function withEach(
  args: Arguments,
  { clock, inherited }: Wiring,
  client: Client,
  { doing, act }: { readonly doing: string; readonly act: (id: string) => Promise<Done> },
): Promise<number> {
  const output = plainOutput()
  const ids = new AgentIds(client)
  const words = [...new Set([...args.words, ...args.rest])]
  const all = (): Promise<readonly Outcome[]> => Promise.all(words.map((word) => once(word, async () => await act(await ids.find(word)))))
  const work = `${doing} ${words.length === 1 ? words[0] : many(words.length, 'agent')}`
  const line = statusLine(clock, args.switches.has('json'))
  // Who leaves does not take the wish back.
  const onInterrupt = (): never => {
    line.wipe()
    output.err(`ebb: the server goes on ${work}; "ebb ps" shows how far it is.\n`)
    process.exit(130)
  }
  if (!inherited.ignored.includes('SIGINT')) process.once('SIGINT', onInterrupt)
  line.waitFor(work)
  const outcomes = await all().finally(line.over)
  process.off('SIGINT', onInterrupt)
  for (const { exit, said } of outcomes) {
    if (exit > 0) output.err(`ebb: ${said}\n`)
    else if (!args.switches.has('json')) output.out(`${said}\n`)
  }
  if (args.switches.has('json')) {
    output.out(
      `${JSON.stringify(
        outcomes.map(({ facts }) => facts),
        null,
        2,
      )}\n`,
    )
  }
  return Math.max(...outcomes.map(({ exit }) => exit))
}

async function once(word: string, act: () => Promise<Done>): Promise<Outcome> {
  try {
    return { exit: 0, ...(await act()) }
  } catch (error) {
    const code = error instanceof EbbError ? error.code : 'internal'
    const report = code === 'not_released' ? ((error as EbbError).details as Report | undefined) : undefined
    const { exit } = errorTable[code]
    return {
      exit: exit > 100 ? 1 : exit,
      said: report ? notReleased(word, report) : sentence(error),
      facts: { agentId: word, error: { code, message: sentence(error) }, ...(report && { report }) },
    }
  }
}

/** What is left, a line each. */
export function notReleased(what: string, report: Report): string {
  const left = leftOver(report).map(({ kind, name, error, outcome }) => `\n  ${kind} ${name}: ${error ?? outcome}`)
  const why = left.length > 0 ? left.join('') : report.errors.map((one) => `\n  ${one}`).join('')
  return `not everything of ${what} could be released; "ebb status" shows it until it is gone:${why}`
}
