import type { TestServer } from '../server.ts'
import type { AwsWorld } from './world.ts'

/** Test agents on ECS, and the AWS resources that belong to each of them. */

export const lives = ['/bin/sh', '-c', 'echo line; exec sleep 600']

export interface EcsAgent {
  readonly id: string
  readonly arn: string
  readonly address: string
}

/** Resolves after the agent has printed its line. An agent that is stopped earlier has nothing to upload. */
export async function launchOne(world: AwsWorld, server: TestServer, more: object = {}): Promise<EcsAgent> {
  const id = await server.command(lives, { prompt: 'x', placement: 'ecs', ...more })
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  return agentOf(world, id)
}

export function agentOf(world: AwsWorld, id: string): EcsAgent {
  const task = [...world.tasks.all.values()].find(({ startedBy }) => startedBy === id)
  if (!task) throw new Error(`There is no task of ${id}.`)
  return { id, arn: task.arn, address: task.address }
}

/** The states of an agent's AWS resources: its task, its target and its lease. Resources that do not exist are left out. */
export async function partsOf(world: AwsWorld, { arn, address }: EcsAgent): Promise<readonly string[]> {
  const lease = (await world.objects(`ebb/leases/${address}`)).length > 0
  const target = [...world.targets.all.values()].find((entry) => entry.address === address)
  const task = world.tasks.find(arn)
  return [...(task && task.status !== 'STOPPED' ? [task.status] : []), ...(target ? [target.state] : []), ...(lease ? ['leased'] : [])]
}

export const wholeAgent = ['RUNNING', 'healthy', 'leased']
