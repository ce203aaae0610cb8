import { expect, test } from 'vitest'
import type { Aws, AwsQueries, TaskSeen } from '../../../../src/placements/ecs/aws.ts'
import { RunnersTasks } from '../../../../src/placements/ecs/runners-task.ts'
import { RemoteAgentKind } from '../../../../src/placements/remote/kind.ts'
import type { RemoteAgentSpec, RunnerStatus } from '../../../../src/placements/remote/ports.ts'
import { VirtualClock } from '../../../support/virtual-clock.ts'

/** A runner that does not answer, and the ECS task in which it runs. */

const scope = '0b6e7b0e-8a51-4bd3-9d3c-0d5b8f0f1f11'
const arn = 'arn:aws:ecs:eu-central-1:1:task/agents/abc'
const tags = { 'ebb:installation': 'here', 'ebb:scope': scope }
const task = { cluster: 'agents', taskDefinition: 'agent:7' }
const spec: RemoteAgentSpec = { installation: 'here', port: 4400, task }
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

class Scene {
  readonly clock = new VirtualClock()
  tasks: TaskSeen[] = [{ arn, status: 'RUNNING', tags }]
  readonly calls: string[] = []
  /** The number of calls that the runner does not answer. */
  silences = 0

  readonly #status = async (): Promise<RunnerStatus> => {
    if (this.silences-- > 0) throw new Error('The runner does not answer.')
    return { is: 'known', isAlive: true, exitCode: null, signal: null }
  }

  readonly places = new RunnersTasks({
    aws: { stopTask: async (stopped) => void this.calls.push(`StopTask ${stopped.arn}`) } as Partial<Aws> as Aws,
    queries: {
      listTasks: async () => {
        this.calls.push('ListTasks')
        return this.tasks.map((seen) => seen.arn)
      },
      describeTasks: async (_cluster, arns) => ({ tasks: this.tasks.filter((seen) => arns.includes(seen.arn)), missing: [] }),
    } as Partial<AwsQueries> as AwsQueries,
    times: { settleMs: 45_000, firstObserveDelayMs: 100, longestObserveDelayMs: 1_000, healthyWithinMs: 1 },
    installation: 'here',
  })

  readonly kind = new RemoteAgentKind({
    effects: { append: () => {} },
    clock: this.clock,
    log: silent,
    limitBytes: 1_000,
    tokenFor: () => 'token',
    placeOf: () => this.places.placeOf(task),
    queries: { health: async () => ({ activeAgents: 0 }), status: this.#status },
    runner: {
      stop: async (_call, agentId, isForced) => {
        this.calls.push(`stop ${agentId}${isForced ? ' by force' : ''}`)
        return 'stopped'
      },
      stream: async () => {
        throw new Error('not asked for')
      },
    },
  })

  ctx(): { signal: AbortSignal; clock: VirtualClock } {
    return { signal: new AbortController().signal, clock: this.clock }
  }

  ref(detail: object = { taskArn: arn }): ReturnType<RemoteAgentKind['name']> {
    const intent = { id: `${scope}.6`, scopeId: scope, incarnation: 'i', kind: 'remote-agent', spec, dependsOn: [], onLoss: 'end' as const }
    return this.kind.name({ ...intent, detail: { url: 'http://10.0.0.7:4400', agentId: scope, ...detail } })
  }
}

test('runner in ecs: a task that was seen again is missing from then on, not since an earlier absence', async () => {
  const scene = new Scene()
  const agent = { resourceId: `${scope}.6`, detail: undefined }
  const place = scene.places.placeOf(task)
  const [there] = [scene.tasks]
  const observe = async (): Promise<string> => (await place.observe(agent, scene.ctx())).is
  scene.tasks = []
  expect(await observe()).toBe('unknown')
  scene.tasks = there
  expect(await observe()).toBe('present')
  await scene.clock.run(scene.clock.pause(60_000))
  scene.tasks = []
  expect(await observe()).toBe('unknown')
  await scene.clock.run(scene.clock.pause(45_500))
  expect(await observe()).toBe('absent')
})

test('runner in ecs: an agent with a known task ARN lists no tasks, and accepts no other task', async () => {
  const scene = new Scene()
  const agent = { resourceId: `${scope}.6`, detail: { taskArn: arn } }
  scene.tasks.push({ arn: `${arn}2`, status: 'RUNNING', tags })
  Object.assign(scene.tasks[0] ?? {}, { status: 'STOPPED' })
  expect(await scene.places.placeOf(task).observe(agent, scene.ctx())).toMatchObject({ is: 'absent' })
  expect(scene.calls).toEqual([])
})

test('runner in ecs: a runner that was silent once is called again, and its task is not stopped', async () => {
  const scene = new Scene()
  scene.silences = 2
  for (let attempt = 1; attempt <= 2; attempt++)
    await expect(scene.kind.release(scene.ref(), 'kill', scene.ctx())).rejects.toThrow(/does not answer; its task is stopped when/)
  await scene.kind.release(scene.ref(), 'kill', scene.ctx())
  expect(scene.calls).toEqual([`stop ${scope} by force`])
})

test('runner in ecs: a runner that stays silent is ended with its task, and the proof says what may be missing', async () => {
  const scene = new Scene()
  scene.silences = Number.POSITIVE_INFINITY
  await expect(scene.kind.release(scene.ref(), 'kill', scene.ctx())).rejects.toThrow(/does not answer/)
  await scene.clock.run(scene.clock.pause(2_500))
  await expect(scene.kind.release(scene.ref(), 'kill', scene.ctx())).rejects.toThrow(/does not answer/)
  await scene.clock.run(scene.clock.pause(600))
  await scene.kind.release(scene.ref(), 'kill', scene.ctx())
  expect(scene.calls).toEqual([`StopTask ${arn}`])
  Object.assign(scene.tasks[0] ?? {}, { status: 'STOPPED' })
  expect(await scene.kind.observe(scene.ref(), scene.ctx())).toMatchObject({
    is: 'absent',
    proof: { method: expect.stringMatching(/STOPPED; its last lines may be missing/) },
  })
})
