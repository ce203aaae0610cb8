import type { Agent } from '../../core/model/agent.ts'
import type { Resource } from '../../core/model/resource.ts'
import type { ProcessDetails } from '../../core/ports/process.ts'
import { AgentIds } from '../agent-id.ts'
import type { Arguments } from '../arguments.ts'
import { asking } from '../asking.ts'
import type { Client } from '../client.ts'
import { type CommandDefinition, oneAgent, serverOptions, type Wiring } from '../command.ts'
import { configOf } from '../open.ts'
import { plainOutput } from '../output.ts'
import { type AgentFacts, agentPage } from '../terminal/agent-page.ts'

export const definition: CommandDefinition = {
  name: 'show',
  summary: 'one agent, its processes as they are now, and what it made',
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

/** `ebb show ID`: one agent, its processes as they are now, and what it made. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const word = [...args.words, ...args.rest][0] ?? ''
  const { containment, ...facts } = await asking(args, wiring, configOf(args, wiring), async (client) =>
    agentFacts(client, await new AgentIds(client).find(word)),
  )
  const { agent, processes, resources } = facts
  const { out, painted, face } = plainOutput()
  if (args.switches.has('json')) out(`${JSON.stringify({ ...agent, containment, processes, resources }, null, 2)}\n`)
  else painted(`${agentPage(facts, face, Date.parse(wiring.clock.wall())).join('\n')}\n`)
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
