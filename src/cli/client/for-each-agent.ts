import { EbbError, errorTable, isEbbError, sentence } from '../../core/model/errors.ts'
import { leftOver, type Report } from '../../core/model/report.ts'
import type { Arguments } from '../arguments.ts'
import type { Wiring } from '../command.ts'
import { plainOutput } from '../output.ts'
import { statusLine } from '../terminal/status-line.ts'
import { many } from '../terminal/text.ts'
import { AgentIds } from './agent-id.ts'
import type { Client } from './client.ts'

/** The result of a command for one of its agents: a message for people, and the JSON for scripts. */
export interface AgentResult {
  readonly message: string
  readonly json: object
}

interface Outcome extends AgentResult {
  readonly exit: number
}

/**
 * Performs an action on several agents in parallel. A failure of one does not affect the others. The exit code is the highest
 * one, so `not_released` (3) takes precedence over `agent_not_found` (1).
 */
export async function forEachAgent(
  args: Arguments,
  { clock, inherited }: Wiring,
  client: Client,
  { verb, act }: { readonly verb: 'stopping' | 'deleting'; readonly act: (id: string) => Promise<AgentResult> },
): Promise<number> {
  const output = plainOutput()
  const ids = new AgentIds(client)
  const words = [...new Set([...args.words, ...args.rest])]
  const all = (): Promise<readonly Outcome[]> =>
    Promise.all(words.map((word) => attempt(word, async () => await act(await ids.find(word)))))
  const work = `${verb} ${words.length === 1 ? words[0] : many(words.length, 'agent')}`
  const line = statusLine(clock, args.switches.has('json'))
  // An interrupted command does not cancel its request.
  const onInterrupt = (): never => {
    line.wipe()
    output.err(`ebb: the server continues ${work}; "ebb ps" shows the state.\n`)
    process.exit(130)
  }
  if (!inherited.ignored.includes('SIGINT')) process.once('SIGINT', onInterrupt)
  line.waitFor(work)
  const outcomes = await all().finally(line.end)
  process.off('SIGINT', onInterrupt)
  for (const { exit, message } of outcomes) {
    if (exit > 0) output.err(`ebb: ${message}\n`)
    else if (!args.switches.has('json')) output.out(`${message}\n`)
  }
  if (args.switches.has('json')) {
    output.out(
      `${JSON.stringify(
        outcomes.map(({ json }) => json),
        null,
        2,
      )}\n`,
    )
  }
  return Math.max(...outcomes.map(({ exit }) => exit))
}

async function attempt(word: string, act: () => Promise<AgentResult>): Promise<Outcome> {
  try {
    return { exit: 0, ...(await act()) }
  } catch (error) {
    const code = error instanceof EbbError ? error.code : 'internal'
    const report = isEbbError(error, 'not_released') ? error.details : undefined
    const { exit } = errorTable[code]
    return {
      exit: exit > 100 ? 1 : exit,
      message: report ? notReleased(word, report) : sentence(error),
      json: { agentId: word, error: { code, message: sentence(error) }, ...(report && { report }) },
    }
  }
}

/** Says that something could not be released, with a line for each resource that is left. */
export function notReleased(owner: string, report: Report): string {
  const left = leftOver(report).map(({ kind, name, error, outcome }) => `\n  ${kind} ${name}: ${error ?? outcome}`)
  const why = left.length > 0 ? left.join('') : report.errors.map((text) => `\n  ${text}`).join('')
  return `not everything of ${owner} could be released; "ebb status" shows it until it is gone:${why}`
}
