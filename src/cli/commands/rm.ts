import type { Arguments } from '../arguments.ts'
import { type AgentResult, forEachAgent } from '../client/for-each-agent.ts'
import { connectToServer } from '../client/server-call.ts'
import { type CommandDefinition, serverOptions, someAgents, type Wiring } from '../command.ts'

export const definition: CommandDefinition = {
  name: 'rm',
  summary: 'stop agents, prove their end, and delete their rows, messages and archives',
  usage: 'ebb rm ID… [--force] [--json]',
  examples: ['ebb rm 1a2b3c4d', 'ebb rm 1a2b3c4d 5e6f7a8b --force'],
  options: serverOptions,
  switches: ['force', 'json', 'help'],
  takesWords: someAgents,
  run,
}

async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const client = await connectToServer(args, wiring)
  const force = args.switches.has('force') ? '?force=true' : ''
  const remove = async (id: string): Promise<AgentResult> => {
    await client.delete(`/agents/${id}${force}`)
    return { message: `${id} deleted`, json: { agentId: id, deleted: true } }
  }
  return await forEachAgent(args, wiring, client, { verb: 'deleting', act: remove })
}
