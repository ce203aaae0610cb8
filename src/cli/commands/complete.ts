import { within } from '../../core/engine/race.ts'
import type { Agent } from '../../core/model/agent.ts'
import type { Arguments } from '../arguments.ts'
import { connectAndCheck } from '../client/client.ts'
import type { CommandDefinition, Wiring } from '../command.ts'
import { type Candidate, type Completion, complete, type Settings } from '../completion/candidates.ts'
import { configOf } from '../open.ts'
import { plainOutput } from '../output.ts'
import { allCommands, findCommand } from '../registry.ts'
import { cut } from '../terminal/text.ts'

/** Answers the completion scripts. It is no command for people, so the help does not list it. */
export const definition: CommandDefinition = {
  name: '__complete',
  summary: 'print what a shell may offer for the last word of a command line',
  usage: 'ebb __complete -- WORD…',
  examples: ['ebb __complete -- run cl'],
  options: [],
  switches: [],
  takesCommand: true,
  run,
}

async function run({ rest }: Arguments, wiring: Wiring): Promise<number> {
  // Other users see the arguments in `ps`, and the line may have a token.
  process.title = 'ebb __complete'
  const { kind, candidates } = await completionOf(rest, wiring)
  const lines = candidates.map(({ word, description }) => (description ? `${word}\t${cut(description, descriptionWidth)}` : word))
  plainOutput().out(`${[kind, ...lines].join('\n')}\n`)
  return 0
}

/** A shell shows one line for each candidate. */
const descriptionWidth = 90

/** A completion that fails offers nothing, because a message would appear in the line that the user types. */
async function completionOf(words: readonly string[], wiring: Wiring): Promise<Completion> {
  try {
    return await complete(words, {
      findCommand,
      allCommands,
      providers: wiring.providers,
      agents: (which, settings) => agentsOf(which, settings, wiring),
    })
  } catch {
    return { kind: 'words', candidates: [] }
  }
}

/** How long a completion waits for the server: the user has pressed Tab and waits for the answer. */
const patienceMs = 400

/** Names and ids are not trusted, because a shell may expand them: a word with any other character is not offered. */
const safeWord = /^[\w][\w.-]*$/

async function agentsOf(which: 'agents' | 'running agents', settings: Settings, wiring: Wiring): Promise<readonly Candidate[]> {
  const line: Arguments = { ...settings, switches: new Set(), words: [], rest: [] }
  const path = which === 'agents' ? '/agents' : '/agents/active'
  const listAgents = async (): Promise<readonly Agent[]> => await (await connectAndCheck(configOf(line, wiring))).get(path)
  const answer = await within(wiring.clock, patienceMs, listAgents())
  if (answer.timedOut) return []
  return answer.value.flatMap(({ id, name, type, status, session }) =>
    [id, name]
      .filter((word) => word !== undefined && safeWord.test(word))
      .map((word = '') => ({ word, description: [`${type}, ${status}`, session?.prompt].filter(Boolean).join(': ') })),
  )
}
