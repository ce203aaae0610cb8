import { expect, test } from 'vitest'
import type { Aws, AwsQueries, TaskSeen } from '../../../../src/placements/ecs/aws.ts'
import { EcsTaskKind } from '../../../../src/placements/ecs/ecs-task.ts'
import { startedBy, tagsOf, tokenOf } from '../../../../src/placements/ecs/mark.ts'
import { VirtualClock } from '../../../support/virtual-clock.ts'

/** A task that is not to be seen: for how long that means nothing. */

const mark = { installation: 'here', incarnation: '1-2-3-4', resourceId: '0b6e7b0e-8a51-4bd3-9d3c-0d5b8f0f1f11.3' }
const settings = { cluster: 'agents', taskDefinition: 'agent:7', subnets: ['s'], securityGroups: [], assignPublicIp: false }
const arn = 'arn:aws:ecs:eu-central-1:1:task/agents/abc'

interface Scene {
  readonly kind: EcsTaskKind
  readonly clock: VirtualClock
  readonly stopped: string[]
  /** What ListTasks and DescribeTasks have. */
  readonly tasks: TaskSeen[]
}

function scene(): Scene {
  const tasks: TaskSeen[] = []
  const stopped: string[] = []
  const queries = {
    listTasks: async () => tasks.map((task) => task.arn),
    describeTasks: async (_cluster, arns) => ({
      tasks: tasks.filter((task) => arns.includes(task.arn)),
      missing: arns.filter((one) => !tasks.some((task) => task.arn === one)),
    }),
  } as Partial<AwsQueries> as AwsQueries
  const aws = { stopTask: async (task) => void stopped.push(task.arn) } as Partial<Aws> as Aws
  const times = { settleMs: 45_000, firstObserveDelayMs: 100, longestObserveDelayMs: 1_000, healthyWithinMs: 240_000 }
  return { kind: new EcsTaskKind({ aws, queries, times, installation: 'here', settings }), clock: new VirtualClock(), stopped, tasks }
}

function refOf({ kind }: Scene, detail?: object): ReturnType<EcsTaskKind['name']> {
  const spec = { ...settings, installation: 'here' }
  const intent = {
    id: mark.resourceId,
    scopeId: 'x',
    incarnation: mark.incarnation,
    kind: kind.kind,
    spec,
    dependsOn: [],
    onLoss: 'end' as const,
  }
  return kind.name(detail === undefined ? intent : { ...intent, detail })
}

test.each([
  ['whose reply was lost', { isAsked: true }],
  ['of which ECS says MISSING', { isAsked: true, arn }],
])('a task %s is unknown for a while, and absent only then (G4)', async (_name, detail) => {
  const here = scene()
  const ctx = { signal: new AbortController().signal, clock: here.clock }
  const ref = refOf(here, detail)
  expect((await here.kind.observe(ref, ctx)).is).toBe('unknown')
  await here.clock.run(here.clock.pause(44_000))
  expect((await here.kind.observe(ref, ctx)).is).toBe('unknown')
  await here.clock.run(here.clock.pause(1_500))
  expect((await here.kind.observe(ref, ctx)).is).toBe('absent')
})

test('a task that appears late is present, and is stopped by what it carries', async () => {
  const here = scene()
  const ctx = { signal: new AbortController().signal, clock: here.clock }
  const ref = refOf(here, { isAsked: true })
  expect((await here.kind.observe(ref, ctx)).is).toBe('unknown')
  here.tasks.push({ arn, status: 'PENDING', tags: tagsOf(mark) })
  expect((await here.kind.observe(ref, ctx)).is).toBe('present')
  await here.kind.release(ref, 'kill', ctx)
  expect(here.stopped).toEqual([arn])
})

test('what was never asked for, or refused for certain, needs no waiting', async () => {
  const here = scene()
  const ctx = { signal: new AbortController().signal, clock: here.clock }
  expect((await here.kind.observe(refOf(here), ctx)).is).toBe('absent')
  expect((await here.kind.observe(refOf(here, { isAsked: false }), ctx)).is).toBe('absent')
})

test('a task under our startedBy without our tags is not ours to stop (G10)', async () => {
  const here = scene()
  const ctx = { signal: new AbortController().signal, clock: here.clock }
  here.tasks.push(
    { arn, status: 'RUNNING', tags: {} },
    { arn: `${arn}2`, status: 'RUNNING', tags: { ...tagsOf(mark), 'ebb:installation': 'there' } },
  )
  const ref = refOf(here, { isAsked: true })
  await here.kind.release(ref, 'kill', ctx)
  expect(here.stopped).toEqual([])
  const found = []
  for await (const one of here.kind.list({ installation: 'here' }, ctx)) found.push(one)
  expect(found).toEqual([])
})

test('names follow from the intent, in the characters and lengths that the API takes', () => {
  expect(tokenOf(mark)).toMatch(/^[0-9a-f-]{36}$/)
  expect(tokenOf(mark)).not.toBe(tokenOf({ ...mark, resourceId: `${mark.resourceId}1` }))
  expect(startedBy('0b6e7b0e-8a51-4bd3-9d3c-0d5b8f0f1f11')).toBe('0b6e7b0e-8a51-4bd3-9d3c-0d5b8f0f1f11')
  expect(startedBy('reaped-0b6e7b0e-8a51-4bd3-9d3c-0d5b8f0f1f11')).toMatch(/^[0-9a-f-]{36}$/)
})
