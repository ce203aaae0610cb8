import { describe, expect, test } from 'vitest'
import { Handles } from '../../../../src/core/ports/handles.ts'
import type { CreateCtx } from '../../../../src/core/ports/kind.ts'
import { AddressLeaseKind, type addressLeaseKind } from '../../../../src/placements/ecs/address-lease.ts'
import {
  type Aws,
  AwsProblem,
  type AwsQueries,
  type ObjectSeen,
  type TargetSeen,
  type TaskSeen,
} from '../../../../src/placements/ecs/aws.ts'
import { taskLabel } from '../../../../src/placements/ecs/ecs-task.ts'
import { LbTargetKind, type lbTargetKind } from '../../../../src/placements/ecs/lb-target.ts'
import { metadataOf } from '../../../../src/placements/ecs/mark.ts'
import { VirtualClock } from '../../../support/virtual-clock.ts'

/** Targets and leases whose creation was not confirmed. They may still appear, so a missing one is unknown for a while. */

const times = { settleMs: 45_000, firstObserveDelayMs: 100, longestObserveDelayMs: 1_000, healthyWithinMs: 240_000 }
const place = { bucket: 'results', prefix: 'ebb' }
const address = '10.0.0.7'
const arn = 'arn:aws:ecs:eu-central-1:1:task/agents/abc'
const mark = { installation: 'here', incarnation: '1-2-3-4', resourceId: '0b6e7b0e-8a51-4bd3-9d3c-0d5b8f0f1f11.4' }
const unanswered = (): AwsProblem => Object.assign(new AwsProblem('unreachable', 'AWS did not answer'), { isCertain: false })

/** The state of the resources, and the outcome of a call that creates one. */
class Scene {
  readonly clock = new VirtualClock()
  readonly recorded: unknown[] = []
  readonly letAnswer: (true | undefined)[] = []
  target: TargetSeen | undefined
  lease: ObjectSeen | undefined
  task: TaskSeen | undefined = { arn, status: 'RUNNING', address, tags: {} }
  problem: AwsProblem | undefined

  readonly #make = async (_order: unknown, ...rest: readonly unknown[]): Promise<void> => {
    this.letAnswer.push((rest.at(-1) as { letsAnswer?: true }).letsAnswer)
    if (this.problem) throw this.problem
  }
  readonly aws = { registerTarget: this.#make, putLease: this.#make, deregisterTarget: async () => {} } as Partial<Aws> as Aws
  readonly queries = {
    head: async () => this.lease,
    targetHealth: async () => (this.target ? [this.target] : []),
    deregistrationDelayMs: async () => 1_000,
    describeTasks: async () => ({ tasks: this.task ? [this.task] : [], missing: [] }),
    listTasks: async () => [],
  } as Partial<AwsQueries> as AwsQueries

  ctx(): CreateCtx<typeof addressLeaseKind> & CreateCtx<typeof lbTargetKind> {
    const handles = new Handles()
    handles.add(taskLabel, { address, arn, cluster: 'agents' })
    return {
      signal: new AbortController().signal,
      clock: this.clock,
      live: undefined,
      handles,
      record: async (detail) => void this.recorded.push(detail),
    }
  }
}

const rest = { id: mark.resourceId, scopeId: 'x', incarnation: mark.incarnation, dependsOn: [], onLoss: 'end' as const }
const targetSpec = { cluster: 'agents', taskDefinition: 'agent', installation: 'here', group: 'group', port: 4400, leases: place }

function targetKind({ aws, queries }: Scene): LbTargetKind {
  return new LbTargetKind({ aws, queries, times, installation: 'here', settings: targetSpec })
}

function leaseKind({ aws, queries }: Scene): AddressLeaseKind {
  return new AddressLeaseKind({ aws, queries, times, installation: 'here', place })
}

interface Made {
  observe(): Promise<string>
  patienceMs(): number
}

/** Creates a resource of the kind. `observe` uses the detail that the ledger has of the resource by then. */
async function ask(kindOf: 'lb-target' | 'address-lease', scene: Scene): Promise<Made & { readonly error: unknown }> {
  const ctx = scene.ctx()
  const kind = kindOf === 'lb-target' ? targetKind(scene) : leaseKind(scene)
  const spec = kindOf === 'lb-target' ? targetSpec : { ...place, installation: 'here' }
  const named = (detail?: unknown): never =>
    kind.name({ ...rest, kind: kind.kind, spec, ...(detail !== undefined && { detail }) } as never) as never
  const made = await scene.clock.run(kind.create(named(), spec as never, ctx).catch((error: unknown) => ({ error })))
  const detail = 'detail' in made ? made.detail : scene.recorded.at(-1)
  return {
    error: 'error' in made ? made.error : undefined,
    observe: async () => (await kind.observe(named(detail), ctx)).is,
    patienceMs: () => kind.patienceMs(named(detail)),
  }
}

const healthy: TargetSeen = { address, port: 4400, state: 'healthy' }

describe.each(['lb-target', 'address-lease'] as const)('%s', (kind) => {
  const appear = (scene: Scene): void => {
    scene.target = healthy
    scene.lease = { etag: 'e', sizeBytes: 1, metadata: metadataOf(mark) }
  }
  const vanish = (scene: Scene): void => {
    scene.target = undefined
    scene.lease = undefined
  }

  test('with a call that was never answered is unknown for a while, and absent only then (G4)', async () => {
    const scene = new Scene()
    scene.problem = unanswered()
    const made = await ask(kind, scene)
    expect(made.error).toBe(scene.problem)
    expect(await made.observe()).toBe('unknown')
    await scene.clock.run(scene.clock.pause(44_000))
    expect(await made.observe()).toBe('unknown')
    // A close without a deadline waits until the absence is certain.
    expect(made.patienceMs()).toBeGreaterThan(times.settleMs)
    await scene.clock.run(scene.clock.pause(1_500))
    expect(await made.observe()).toBe('absent')
  })

  test('that appears late is present, and absent as soon as it is removed', async () => {
    const scene = new Scene()
    scene.problem = unanswered()
    const made = await ask(kind, scene)
    expect(await made.observe()).toBe('unknown')
    appear(scene)
    expect(await made.observe()).toBe('present')
    vanish(scene)
    expect(await made.observe()).toBe('absent')
  })

  test('that was certainly refused, or never requested, is absent at once', async () => {
    for (const trouble of ['denied', 'aborted'] as const) {
      const scene = new Scene()
      scene.problem = new AwsProblem(trouble, 'no')
      expect(await (await ask(kind, scene)).observe()).toBe('absent')
    }
  })

  test('that was created is absent at once when it is gone, and its call was allowed to finish', async () => {
    const scene = new Scene()
    appear(scene)
    const made = await ask(kind, scene)
    expect(made.error).toBeUndefined()
    expect(scene.letAnswer).toEqual([true])
    vanish(scene)
    expect(await made.observe()).toBe('absent')
  })
})

describe('ecs: a target that does not become healthy', () => {
  test("fails the launch before the engine's deadline, with the load balancer's last reason", async () => {
    const scene = new Scene()
    scene.target = { ...healthy, state: 'unhealthy', reason: 'Target.Timeout: Request timed out' }
    const { error } = await ask('lb-target', scene)
    expect(error).toMatchObject({
      code: 'launch_failed',
      message: expect.stringMatching(/within 240 s, it is unhealthy \(Target\.Timeout/),
    })
    expect(scene.clock.now()).toBeLessThan(targetKind(scene).createBudgetMs)
  })

  test('fails the launch at once when its task has stopped', async () => {
    const scene = new Scene()
    scene.target = { ...healthy, state: 'initial', reason: 'Elb.RegistrationInProgress' }
    scene.task = { arn, status: 'STOPPED', stoppedReason: 'Essential container in task exited', tags: {} }
    const { error } = await ask('lb-target', scene)
    expect(error).toMatchObject({
      code: 'launch_failed',
      message: expect.stringMatching(/task stopped .*Essential container in task exited/),
    })
    expect(scene.clock.now()).toBeLessThan(5_000)
  })
})
