import type { Agent } from '../../core/model/agent.ts'
import type { Resource } from '../../core/model/resource.ts'
import type { ProcessDetails } from '../../core/ports/process.ts'
import type { Arguments } from '../arguments.ts'
import { AgentIds } from '../client/agent-id.ts'
import type { Client } from '../client/client.ts'
import { callServer } from '../client/server-call.ts'
import { type CommandDefinition, oneAgent, serverOptions, type Wiring } from '../command.ts'
import { configOf } from '../open.ts'
import { plainOutput } from '../output.ts'
import { type AgentFacts, agentPage } from '../terminal/agent-page.ts'

export const definition: CommandDefinition = {
  name: 'show',
  summary: 'show one agent, its current processes and its resources',
  usage: 'ebb show ID [--json]',
  examples: ['ebb show 1a2b3c4d', 'ebb show 1a2b3c4d --json'],
  options: serverOptions,
  switches: ['json', 'help'],
  takesWords: oneAgent,
  run,
}

interface Processes {
  readonly containment: string
  readonly processes: readonly ProcessDetails[]
}

async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const word = [...args.words, ...args.rest][0] ?? ''
  const { containment, ...facts } = await callServer(args, wiring, configOf(args, wiring), async (client) =>
    agentFacts(client, await new AgentIds(client).find(word)),
  )
  const { agent, processes, resources } = facts
  const { out, painted, style } = plainOutput()
  if (args.switches.has('json')) out(`${JSON.stringify({ ...agent, containment, processes, resources }, null, 2)}\n`)
  else painted(`${agentPage(facts, style, Date.parse(wiring.clock.wall())).join('\n')}\n`)
  return 0
}

export async function agentFacts(client: Client, id: string, signal?: AbortSignal): Promise<AgentFacts & { readonly containment: string }> {
  const [agent, { containment, processes }, resources] = await Promise.all([
    client.get<Agent>(`/agents/${id}`, signal),
    client.get<Processes>(`/agents/${id}/process`, signal),
    client.get<readonly Resource[]>(`/agents/${id}/resources`, signal),
  ])
  return { agent, containment, processes, resources }
}
