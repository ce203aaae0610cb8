import { expect, test } from 'vitest'
import type { ClientPool, Clients } from '../../../../src/placements/ecs/clients.ts'
import { awsQueries } from '../../../../src/placements/ecs/queries.ts'
import { VirtualClock } from '../../../support/virtual-clock.ts'

interface Asked {
  readonly region: string | undefined
  readonly tasks: readonly string[]
}

class DescribeTasksCommand {
  readonly input: { readonly tasks: readonly string[] }

  constructor(input: { readonly tasks: readonly string[] }) {
    this.input = input
  }
}

/** Clients of a fake ECS that describes every task, and records which region was asked for which tasks. */
function fakeEcs(): { readonly pool: ClientPool; readonly asked: Asked[] } {
  const asked: Asked[] = []
  const clientsOf = async (region: string | undefined): Promise<Clients> => {
    const send = async ({ input: { tasks } }: DescribeTasksCommand) => {
      asked.push({ region, tasks })
      return { tasks: tasks.map((taskArn) => ({ taskArn, lastStatus: 'RUNNING' })), failures: [] }
    }
    return { packages: { ecs: { DescribeTasksCommand } }, ecs: { send } } as unknown as Clients
  }
  return { pool: { for: clientsOf } as Partial<ClientPool> as ClientPool, asked }
}

const arnIn = (region: string, id: number | string): string => `arn:aws:ecs:${region}:1:task/agents/${id}`

test('describeTasks: tasks of two regions are each described in their own region', async () => {
  const { pool, asked } = fakeEcs()
  const call = { signal: new AbortController().signal, clock: new VirtualClock() }
  const arns = [arnIn('eu-central-1', 'a'), arnIn('us-east-1', 'b'), 'short-id', arnIn('eu-central-1', 'c')]
  const { tasks, missing } = await awsQueries(pool).describeTasks({ cluster: 'agents', region: 'eu-north-1' }, arns, call)
  expect(asked).toEqual([
    { region: 'eu-central-1', tasks: [arns[0], arns[3]] },
    { region: 'us-east-1', tasks: [arns[1]] },
    { region: 'eu-north-1', tasks: ['short-id'] },
  ])
  expect([tasks.map(({ arn }) => arn).toSorted(), missing]).toEqual([arns.toSorted(), []])
})

test('describeTasks: asks for at most 100 tasks at a time, and for none without tasks', async () => {
  const { pool, asked } = fakeEcs()
  const call = { signal: new AbortController().signal, clock: new VirtualClock() }
  const arns = Array.from({ length: 201 }, (_, index) => arnIn('eu-central-1', index))
  expect((await awsQueries(pool).describeTasks({ cluster: 'agents' }, arns, call)).tasks).toHaveLength(201)
  expect(asked.map(({ tasks }) => tasks.length)).toEqual([100, 100, 1])
  expect(await awsQueries(pool).describeTasks({ cluster: 'agents' }, [], call)).toEqual({ tasks: [], missing: [] })
  expect(asked).toHaveLength(3)
})
