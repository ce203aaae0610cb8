import { detachHelp } from '../../config/options.ts'
import type { Agent } from '../../core/model/agent.ts'
import { EbbError } from '../../core/model/errors.ts'
import type { PlacementTable } from '../../core/ports/placement.ts'
import type { Arguments } from '../arguments.ts'
import { AgentIds } from '../client/agent-id.ts'
import { callServer } from '../client/server-call.ts'
import { type CommandDefinition, oneAgent, serverOptions, type Wiring } from '../command.ts'
import { configOf } from '../open.ts'

export const definition: CommandDefinition = {
  name: 'attach',
  summary: `open the terminal of an agent; ${detachHelp} detaches from it`,
  usage: 'ebb attach ID',
  examples: ['ebb attach 1a2b3c4d', 'ebb attach builder-142530-1a2b3c'],
  options: serverOptions,
  switches: ['json', 'help'],
  takesWords: { ...oneAgent, offers: () => 'running agents' },
  run,
}

async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const agent = await callServer(args, wiring, config, async (client) => {
    const found = await client.agent(await new AgentIds(client).find(args.words[0] ?? ''))
    requireTerminal(found, wiring.placementTable, client.isLocal)
    return found
  })
  if (!process.stdin.isTTY) throw new EbbError('bad_usage', '"ebb attach" needs a terminal; "ebb logs -f" follows an agent without one.')
  return await wiring.attach(config, agent)
}

function requireTerminal({ id, placement, status }: Agent, placements: PlacementTable, isLocal: boolean): void {
  if (placements.get(placement)?.hasTerminal !== true)
    throw new EbbError(
      'bad_usage',
      `The agent ${id} has the placement ${placement}, which has no terminal; "ebb logs -f ${id}" follows it.`,
    )
  if (!isLocal) throw new EbbError('bad_usage', `The agent ${id} runs on another machine; attach to it there.`)
  if (status !== 'running' && status !== 'stopping')
    throw new EbbError('bad_usage', `The agent ${id} is ${status} and has no terminal any more; "ebb logs ${id}" shows its messages.`)
}
