import type { Provider } from '../core/ports/provider.ts'
import { refuse } from './invocation.ts'
import { parseLine } from './line.ts'

/** Runs any command with the prompt on its standard input. Its lines are messages, and its exit code is the result. */
export const command: Provider = {
  type: 'command',
  name: 'Command',
  description: 'Any program. The prompt is sent to its standard input.',
  capabilities: {
    streaming: true,
    multiTurn: false,
    toolUse: false,
    fileAccess: true,
    customInstructions: false,
    mcpSupport: false,
    modelSelection: false,
  },
  models: [],
  program: undefined,
  inputs: ['command'],
  mayCallBack: true,

  invoke: ({ prompt, configuration }) => {
    const { command, customArgs } = configuration
    if (!command?.[0]) refuse('An agent of type command needs configuration.command, an array of a program and its arguments.')
    return { argv: [...command, ...(customArgs ?? [])], stdin: prompt }
  },

  parse: (line) => parseLine(line, () => undefined),
}
