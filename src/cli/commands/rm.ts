import type { Arguments } from '../arguments.ts'
import { reach } from '../asking.ts'
import { type CommandDefinition, serverOptions, someAgents, type Wiring } from '../command.ts'
import { type Done, withEach } from '../each-agent.ts'

export const definition: CommandDefinition = {
  name: 'rm',
  summary: 'end agents, proven, and delete everything of them: rows, messages and archives',
  usage: 'ebb rm ID… [--force] [--json]',
  examples: ['ebb rm 1a2b3c4d', 'ebb rm 1a2b3c4d 5e6f7a8b --force'],
  options: serverOptions,
  switches: ['force', 'json', 'help'],
  takesWords: someAgents,
  run,
}

/** `ebb rm ID…`: ended, proven, and everything of it deleted: row, messages and archive. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const client = await reach(args, wiring)
  const force = args.switches.has('force') ? '?force=true' : ''
  const remove = async (id: string): Promise<Done> => {
    await client.delete(`/agents/${id}${force}`)
    return { said: `${id} deleted`, facts: { agentId: id, deleted: true } }
  }
  return await withEach(args, wiring, client, { doing: 'deleting', act: remove })
}
