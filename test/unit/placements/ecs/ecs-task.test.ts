import { expect, test } from 'vitest'
import type { DetailOf } from '../../../../src/core/ports/kind.ts'
import type { Aws, AwsQueries, TaskSeen } from '../../../../src/placements/ecs/aws.ts'
import { EcsTaskKind, type ecsTaskKind } from '../../../../src/placements/ecs/ecs-task.ts'
import { startedBy, tagsOf, tokenOf } from '../../../../src/placements/ecs/mark.ts'
import { VirtualClock } from '../../../support/virtual-clock.ts'

/** Tests for how long the absence of a task that cannot be found proves nothing. */

const mark = { installation: 'here', incarnation: '1-2-3-4', resourceId: '0b6e7b0e-8a51-4bd3-9d3c-0d5b8f0f1f11.3' }
const settings = { cluster: 'agents', taskDefinition: 'agent:7', subnets: ['s'], securityGroups: [], assignPublicIp: false }
const arn = 'arn:aws:ecs:eu-central-1:1:task/agents/abc'

interface Scene {
  readonly kind: EcsTaskKind
  readonly clock: VirtualClock
  readonly stopped: string[]
  /** The tasks that ListTasks and DescribeTasks return. */
  readonly tasks: TaskSeen[]
}

function scene(): Scene {
  const tasks: TaskSeen[] = []
  const stopped: string[] = []
  const queries = {
    listTasks: async () => tasks.map((task) => task.arn),
    describeTasks: async (_cluster, arns) => ({
      tasks: tasks.filter((task) => arns.includes(task.arn)),
      missing: arns.filter((wanted) => !tasks.some((task) => task.arn === wanted)),
    }),
  } as Partial<AwsQueries> as AwsQueries
  const aws = { stopTask: async (task) => void stopped.push(task.arn) } as Partial<Aws> as Aws
  const times = { settleMs: 45_000, firstObserveDelayMs: 100, longestObserveDelayMs: 1_000, healthyWithinMs: 240_000 }
  return { kind: new EcsTaskKind({ aws, queries, times, installation: 'here', settings }), clock: new VirtualClock(), stopped, tasks }
}

function refOf({ kind }: Scene, detail?: DetailOf<typeof ecsTaskKind>): ReturnType<EcsTaskKind['name']> {
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
  ['that ECS reports as MISSING', { isAsked: true, arn }],
])('ecs task: one %s is unknown for a while, and absent only then (G4)', async (_name, detail) => {
  const here = scene()
  const ctx = { signal: new AbortController().signal, clock: here.clock }
  const ref = refOf(here, detail)
  expect((await here.kind.observe(ref, ctx)).is).toBe('unknown')
  await here.clock.run(here.clock.pause(44_000))
  expect((await here.kind.observe(ref, ctx)).is).toBe('unknown')
  await here.clock.run(here.clock.pause(1_500))
  expect((await here.kind.observe(ref, ctx)).is).toBe('absent')
})

test('ecs task: one that appears late is present, and is stopped by its tags', async () => {
  const here = scene()
  const ctx = { signal: new AbortController().signal, clock: here.clock }
  const ref = refOf(here, { isAsked: true })
  expect((await here.kind.observe(ref, ctx)).is).toBe('unknown')
  here.tasks.push({ arn, status: 'PENDING', tags: tagsOf(mark) })
  expect((await here.kind.observe(ref, ctx)).is).toBe('present')
  await here.kind.release(ref, 'kill', ctx)
  expect(here.stopped).toEqual([arn])
})

test('ecs task: one that was never requested, or was certainly refused, is absent at once', async () => {
  const here = scene()
  const ctx = { signal: new AbortController().signal, clock: here.clock }
  expect((await here.kind.observe(refOf(here), ctx)).is).toBe('absent')
  expect((await here.kind.observe(refOf(here, { isAsked: false }), ctx)).is).toBe('absent')
})

test("ecs task: one with Ebb's startedBy but without its tags is not stopped (G10)", async () => {
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
  for await (const task of here.kind.list({ installation: 'here' }, ctx)) found.push(task)
  expect(found).toEqual([])
})

test('ecs task: names follow from the intent, within the characters and lengths of the API', () => {
  expect(tokenOf(mark)).toMatch(/^[0-9a-f-]{36}$/)
  expect(tokenOf(mark)).not.toBe(tokenOf({ ...mark, resourceId: `${mark.resourceId}1` }))
  expect(startedBy('0b6e7b0e-8a51-4bd3-9d3c-0d5b8f0f1f11')).toBe('0b6e7b0e-8a51-4bd3-9d3c-0d5b8f0f1f11')
  expect(startedBy('reaped-0b6e7b0e-8a51-4bd3-9d3c-0d5b8f0f1f11')).toMatch(/^[0-9a-f-]{36}$/)
})
