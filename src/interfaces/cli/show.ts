import type { Agent } from '../../domain/agent.ts'
import type { Resource } from '../../domain/resource.ts'
import type { ProcessDetails } from '../../ports/process.ts'
import { AgentIds } from './agent-id.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'
import { connect } from './client.ts'
import { configOf } from './open.ts'
import { plainOutput } from './output.ts'
import { cut } from './render.ts'

interface Processes {
  readonly containment: string
  readonly processes: readonly ProcessDetails[]
}

/** `ebb show ID`: one agent, its processes as they are now, and what it made. */
export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const client = await connect(configOf(args, wiring))
  const id = await new AgentIds(client).find([...args.words, ...args.rest][0] ?? '')
  const [agent, { containment, processes }, resources] = await Promise.all([
    client.agent(id),
    client.get<Processes>(`/agents/${id}/process`),
    client.get<readonly Resource[]>(`/agents/${id}/resources`),
  ])
  const { out } = plainOutput()
  if (args.switches.has('json')) out(`${JSON.stringify({ ...agent, containment, processes, resources }, null, 2)}\n`)
  else out(`${[...factsOf(agent), ...worldOf(processes, resources)].join('\n')}\n`)
  return 0
}

function factsOf(agent: Agent): readonly string[] {
  const { session } = agent
  const facts: readonly (readonly [string, string | number | undefined])[] = [
    ['Agent', agent.id],
    ['Name', agent.name],
    ['Type', agent.type],
    ['Status', agent.status],
    ['Error', agent.error?.message],
    ['Exit', agent.signal ?? agent.exitCode],
    ['Namespace', agent.namespace],
    ['Request', agent.requestId],
    ['Task', agent.taskId],
    ['Placement', agent.placement],
    ['Folder', session.configuration.workingDirectory],
    ['Model', session.configuration.model],
    ['Created', agent.createdAt],
    ['Completed', agent.completedAt],
    ['Messages', session.messageCount],
    ['Prompt', cut(session.prompt, 500)],
  ]
  return facts.flatMap(([name, value]) => (value === undefined || value === '' ? [] : [`${name.padEnd(10)} ${value}`]))
}

function worldOf(processes: readonly ProcessDetails[], resources: readonly Resource[]): readonly string[] {
  return [
    ...processes.map(({ pid, command }) => `${'Process'.padEnd(10)} ${pid} ${cut(command, 200)}`),
    ...resources.map(({ kind, name, state, error }) => `${'Resource'.padEnd(10)} ${kind} ${name}: ${error ?? state}`),
  ]
}
