import { within } from '../../core/engine/race.ts'
import type { Agent } from '../../core/model/agent.ts'
import { EbbError } from '../../core/model/errors.ts'
import type { Arguments } from '../arguments.ts'
import { connectAndCheck } from '../client.ts'
import type { CommandDefinition, Wiring } from '../command.ts'
import { bashScript } from '../completion/bash.ts'
import { fishScript } from '../completion/fish.ts'
import { vocabularyOf } from '../completion/vocabulary.ts'
import { zshScript } from '../completion/zsh.ts'
import { configOf } from '../open.ts'
import { plainOutput } from '../output.ts'
import { allCommands } from '../registry.ts'

export const definition: CommandDefinition = {
  name: 'completion',
  summary: 'print a script that completes commands, options and agents in the shell',
  usage: 'ebb completion bash|zsh|fish [--json]',
  examples: ['ebb completion bash', 'ebb completion zsh > _ebb', 'ebb completion fish > ebb.fish'],
  options: ['home', 'logLevel'],
  switches: ['json', 'help'],
  takesWords: { names: ['the shell: bash, zsh or fish'], most: 1 },
  run,
}

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } as const

async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const shell = [...args.words, ...args.rest][0] ?? ''
  if (shell === 'agents') return await printAgents(args, wiring)
  if (!Object.hasOwn(scripts, shell)) throw new EbbError('bad_usage', `"ebb completion" supports bash, zsh and fish, not "${shell}".`)
  const script = scripts[shell as keyof typeof scripts](vocabularyOf(await allCommands(), await wiring.providers()))
  const { out } = plainOutput()
  out(args.switches.has('json') ? `${JSON.stringify({ shell, script }, null, 2)}\n` : script)
  return 0
}

/** How long a completion waits for the server: the user has pressed Tab and waits for the answer. */
const patienceMs = 400

/** Only ids are printed: the shell expands the output, and would run a command substitution in it. */
const agentId = /^[0-9a-f-]{36}$/

/** Prints the ids of agents for the completion scripts, if the server answers in time. */
async function printAgents(args: Arguments, wiring: Wiring): Promise<number> {
  const listAgents = async (): Promise<readonly Agent[]> => await (await connectAndCheck(configOf(args, wiring))).get('/agents')
  const answer = await within(wiring.clock, patienceMs, listAgents())
  const ids = answer.timedOut ? [] : answer.value.map((agent) => agent.id).filter((id) => agentId.test(id))
  if (ids.length > 0) plainOutput().out(`${ids.join('\n')}\n`)
  return 0
}
