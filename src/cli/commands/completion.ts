import { EbbError } from '../../core/model/errors.ts'
import type { Arguments } from '../arguments.ts'
import type { CommandDefinition } from '../command.ts'
import { completionScripts } from '../completion/scripts.ts'
import { plainOutput } from '../output.ts'

const shells = Object.keys(completionScripts)

export const definition: CommandDefinition = {
  name: 'completion',
  summary: 'print a script that completes commands, options and agents in the shell',
  usage: 'ebb completion bash|zsh|fish [--json]',
  examples: ['ebb completion bash', 'ebb completion zsh > _ebb', 'ebb completion fish > ebb.fish'],
  options: ['home', 'logLevel'],
  switches: ['json', 'help'],
  takesWords: { names: ['the shell: bash, zsh or fish'], most: 1, offers: () => shells },
  run,
}

async function run(args: Arguments): Promise<number> {
  const shell = [...args.words, ...args.rest][0] ?? ''
  if (!Object.hasOwn(completionScripts, shell))
    throw new EbbError('bad_usage', `"ebb completion" supports bash, zsh and fish, not "${shell}".`)
  const script = completionScripts[shell as keyof typeof completionScripts]
  plainOutput().out(args.switches.has('json') ? `${JSON.stringify({ shell, script }, null, 2)}\n` : script)
  return 0
}
