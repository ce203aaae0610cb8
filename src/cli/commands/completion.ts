import { within } from '../../core/engine/race.ts'
import type { Agent } from '../../core/model/agent.ts'
import { EbbError } from '../../core/model/errors.ts'
import type { Arguments } from '../arguments.ts'
import { greet } from '../client.ts'
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
  summary: 'a script by which the shell completes commands, options and agents',
  usage: 'ebb completion bash|zsh|fish [--json]',
  examples: ['ebb completion bash', 'ebb completion zsh > _ebb', 'ebb completion fish > ebb.fish'],
  options: ['home', 'logLevel'],
  switches: ['json', 'help'],
  takesWords: { names: ['the shell: bash, zsh or fish'], most: 1 },
  run,
}

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } as const

/** `ebb completion SHELL`: a script for the shell, made from the same table as the help. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const shell = [...args.words, ...args.rest][0] ?? ''
  if (shell === 'agents') return await tellAgents(args, wiring)
  if (!Object.hasOwn(scripts, shell)) throw new EbbError('bad_usage', `"ebb completion" knows bash, zsh and fish, not "${shell}".`)
  const script = scripts[shell as keyof typeof scripts](vocabularyOf(await allCommands(), await wiring.providers()))
  const { out } = plainOutput()
  out(args.switches.has('json') ? `${JSON.stringify({ shell, script }, null, 2)}\n` : script)
  return 0
}

/** Whoever has pressed Tab waits with an empty line. */
const patienceMs = 400

/** A shell makes words of what it is given, and runs what stands in them: nothing but ids. */
const id = /^[0-9a-f-]{36}$/

/** For the scripts: the agents that may be meant, if the server says so at once. */
async function tellAgents(args: Arguments, wiring: Wiring): Promise<number> {
  const ask = async (): Promise<readonly Agent[]> => await (await greet(configOf(args, wiring))).get('/agents')
  const answer = await within(wiring.clock, patienceMs, ask())
  const ids = answer.timedOut ? [] : answer.value.map((agent) => agent.id).filter((one) => id.test(one))
  if (ids.length > 0) plainOutput().out(`${ids.join('\n')}\n`)
  return 0
}
