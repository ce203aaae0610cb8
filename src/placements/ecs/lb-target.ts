import { EbbError } from '../../core/model/errors.ts'
import { type Mark, scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Presence, type Proof, present, unsettled } from '../../core/model/resource.ts'
import {
  type CreateCtx,
  type Created,
  type Ctx,
  type Found,
  type IntentOf,
  kindName,
  type Owner,
  type ResourceKind,
  type StepEffect,
} from '../../core/ports/kind.ts'
import type { Aws, AwsQueries, Cluster, Target, TargetSeen, TaskSeen } from './aws.ts'
import { ecsTaskKind, type TaskHandle, taskLabel } from './ecs-task.ts'
import { afterLease, leaseAt, leasesOf } from './leases.ts'
import { isOfScope, metadataNames, ownedMark } from './mark.ts'
import { delay, jittered, untilAbsent, wasNotCarriedOut } from './patience.ts'
import { Unconfirmed } from './settling.ts'
import type { TargetSpec } from './specs.ts'
import { clusterOf, findRunning } from './task-finder.ts'
import { type AwsTimes, createBudgetMs } from './times.ts'

/**
 * The address of a task, registered in a target group. A target has no tags. Its owner follows from the lease of the address and from the
 * task that has the address. When the address belongs to another task by now, the target is not touched (G10).
 */

/** What the ledger records before the target is registered. Empty when the only registration was refused. */
export interface TargetDetail {
  readonly address?: string
  readonly arn?: string
  /** The deregistration delay of the target group, in which open connections may end. */
  readonly drainMs?: number
  /** True when the load balancer confirmed the registration. Until then the call may still be in progress. */
  readonly isRegistered?: boolean
}

export const lbTargetKind = kindName<{ spec: TargetSpec; detail: TargetDetail }>('lb-target')

export interface TargetRef extends TargetSpec {
  readonly mark: Mark
  readonly arn?: string
  readonly drainMs: number
  readonly isRegistered: boolean
}

export interface TargetDeps {
  readonly aws: Aws
  readonly queries: AwsQueries
  readonly times: AwsTimes
  readonly installation: string
  /** The target group, the leases and the cluster that a listing searches. Without a target group nothing is listed. */
  readonly settings: Omit<TargetSpec, 'installation' | 'address' | 'group'> & { readonly group: string | undefined }
}

const usualDrainMs = 300_000

/** The time that is added to the deregistration delay, because draining takes a moment longer. */
const marginMs = 30_000

export class LbTargetKind implements ResourceKind<typeof lbTargetKind, TargetRef> {
  readonly kind = lbTargetKind
  readonly outlivesPower = true
  readonly isRemote = true
  /**
   * Draining targets get no new connections, but may drain for minutes. So a forced close stops the task while the target drains. The lease
   * stays until the target is gone, because the address is in use until then.
   */
  readonly yieldsByForceTo = [ecsTaskKind]
  readonly createBudgetMs = createBudgetMs
  readonly #deps: TargetDeps
  readonly #unconfirmed: Unconfirmed

  constructor(deps: TargetDeps) {
    this.#deps = deps
    this.#unconfirmed = new Unconfirmed(deps.times.settleMs)
  }

  name(intent: IntentOf<typeof lbTargetKind>): TargetRef {
    const mark = { installation: intent.spec.installation, incarnation: intent.incarnation, resourceId: intent.id }
    return { drainMs: usualDrainMs, isRegistered: true, ...intent.spec, ...intent.detail, mark }
  }

  describe({ address, port, group, mark }: TargetRef): string {
    const name = group.replace(/^.*:targetgroup\//, '')
    return address === undefined ? `target of ${mark.resourceId} in ${name}` : `${address}:${port} in ${name}`
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  patienceMs({ drainMs, isRegistered }: TargetRef): number {
    return drainMs + marginMs + (isRegistered ? 0 : this.#deps.times.settleMs)
  }

  async create(_ref: TargetRef, { group, port }: TargetSpec, ctx: CreateCtx<typeof lbTargetKind>): Promise<Created<typeof lbTargetKind>> {
    const task = ctx.handles.get(taskLabel)
    const { address, arn } = task
    const drainMs = await this.#deps.queries.deregistrationDelayMs(group, ctx)
    const detail = { address, arn, drainMs, isRegistered: false }
    await ctx.record(detail)
    const target: Target = { group, address, port }
    const call = { signal: ctx.signal, clock: ctx.clock, letsAnswer: true } as const
    await this.#deps.aws.registerTarget(target, call).catch((error: unknown) => refused(error, ctx))
    await this.#untilInService(target, task, ctx)
    return { detail: { ...detail, isRegistered: true } }
  }

  async #untilInService(target: Target, task: TaskHandle, ctx: Ctx): Promise<void> {
    const { firstObserveDelayMs, longestObserveDelayMs, healthyWithinMs } = this.#deps.times
    const untilMs = ctx.clock.now() + healthyWithinMs
    for (let attempt = 1; !ctx.signal.aborted; attempt++) {
      const [seen, ours] = await Promise.all([this.#findTarget(target, ctx), this.#task(task, task.arn, ctx)])
      // `unavailable` means that the target group has no health checks, so the target is in service.
      if (seen?.state === 'healthy' || seen?.state === 'unavailable') return
      if (seen?.state === 'unused')
        throw new EbbError(
          'launch_failed',
          `The target ${target.address}:${target.port} is unused: ${seen.reason ?? 'its target group has no listener'}.`,
        )
      requireTask(target, seen, ours)
      if (ctx.clock.now() >= untilMs) throw neverHealthy(target, seen, healthyWithinMs)
      await delay(ctx.clock, jittered(attempt, firstObserveDelayMs, longestObserveDelayMs), ctx.signal)
    }
    throw new EbbError('scope_closed', `Its scope was closed while ${target.address}:${target.port} was not yet healthy.`)
  }

  /** The registered target. Undefined when it is missing from the answer, or when the answer only says that it is not registered. */
  async #findTarget(target: Target, ctx: Ctx): Promise<TargetSeen | undefined> {
    const all = await this.#deps.queries.targetHealth(target, ctx)
    const seen = all.find(({ address, port }) => address === target.address && port === target.port)
    return seen?.state === 'unused' && seen.reason?.startsWith('Target.NotRegistered') ? undefined : seen
  }

  async observe(ref: TargetRef, ctx: Ctx): Promise<Presence> {
    const gone = (method: string): Presence => absent({ method, strength: 'api', at: ctx.clock.wall() })
    const { address, group, port } = ref
    if (address === undefined) return gone('RegisterTargets was never called')
    const target = { group, address, port }
    // When the address has a lease, the owner is found with few calls, so the owner and the target are queried in parallel.
    const owner = ref.leases ? this.#isAnothers(ref, address, ctx) : undefined
    const [seen] = await Promise.all([this.#findTarget(target, ctx), owner])
    if (!seen) return this.#missing(ref, ctx) ?? gone('DescribeTargetHealth: not registered')
    this.#unconfirmed.seen(ref.mark.resourceId)
    if (await (owner ?? this.#isAnothers(ref, address, ctx))) return gone('the address belongs to another task by now')
    return present(`${address}:${port} is ${seen.state}`)
  }

  /**
   * The presence of a target that is not found. Undefined when the target is absent. A registration that was never confirmed may still take
   * effect, so such a target is unsettled for a while.
   */
  #missing({ isRegistered, mark }: TargetRef, ctx: Ctx): Presence | undefined {
    const leftMs = isRegistered ? 0 : this.#unconfirmed.leftMs(mark.resourceId, ctx.clock)
    if (leftMs === 0) return undefined
    return unsettled(
      `The registration was not confirmed, so the target may still appear; it is observed for ${Math.ceil(leftMs / 1_000)} s.`,
    )
  }

  /**
   * True when the address belongs to another task, which a foreign lease proves. While our own lease exists and our task runs at the
   * address, the address is ours, because a network interface has one task. Otherwise our task may have stopped, and any task of the
   * cluster may have got the address, also one of an owner that uses no leases.
   */
  async #isAnothers(ref: TargetRef, address: string, ctx: Ctx): Promise<boolean> {
    const { queries } = this.#deps
    const scope = scopeOfResource(ref.mark.resourceId)
    const [lease, ours] = await Promise.all([ref.leases && queries.head(leaseAt(ref.leases, address), ctx), this.#task(ref, ref.arn, ctx)])
    if (lease) {
      const { [metadataNames.installation]: installation, [metadataNames.resource]: resource = '' } = lease.metadata
      if (installation !== ref.installation || scopeOfResource(resource) !== scope) return true
      if (ours?.status === 'RUNNING') return false
    }
    const running = await findRunning(queries, ref, undefined, ctx)
    const isOurs = ({ arn, tags }: TaskSeen): boolean => arn === ref.arn || isOfScope(ref.installation, scope, tags)
    return running.some((task) => task.address === address && task.status !== 'STOPPED' && !isOurs(task))
  }

  async #task(cluster: Cluster, arn: string | undefined, ctx: Ctx): Promise<TaskSeen | undefined> {
    if (arn === undefined) return undefined
    const { tasks } = await this.#deps.queries.describeTasks(clusterOf(cluster), [arn], ctx)
    return tasks.find((task) => task.arn === arn)
  }

  async release(ref: TargetRef, _step: LadderStep, ctx: Ctx): Promise<StepEffect> {
    const { address, group, port } = ref
    // The owner is checked again right before the call, because the address may have got another owner since the observation.
    if (address === undefined || (await this.#isAnothers(ref, address, ctx))) return {}
    await this.#deps.aws.deregisterTarget({ group, address, port }, ctx)
    return {}
  }

  async gone(ref: TargetRef, ctx: Ctx): Promise<Proof> {
    return await untilAbsent(this, ref, this.#deps.times, ctx)
  }

  /**
   * Lists targets for the reaper only: those whose address has a lease of this installation. A close reads the address from the ledger,
   * where it was recorded before the registration.
   */
  async *list(owner: Owner, ctx: Ctx): AsyncIterable<Found<TargetSpec>> {
    const { queries, settings, installation } = this.#deps
    const { group } = settings
    if (owner.scopeIds || !settings.leases || group === undefined) return
    const [targets, leases] = await Promise.all([
      queries.targetHealth({ group }, ctx),
      leasesOf(queries, settings.leases, installation, ctx),
    ])
    for (const { address, seen } of leases) {
      const mark = ownedMark(owner, seen.metadata)
      if (!mark || !targets.some((target) => target.address === address && target.port === settings.port)) continue
      const id = afterLease(mark.resourceId, 'lb-target')
      const spec: TargetSpec = { ...settings, group, installation, address }
      yield { resourceId: id, incarnation: mark.incarnation, name: `${address}:${settings.port}`, spec }
    }
  }
}

/** Handles a failed registration. When the only attempt was refused, the ledger records that there is no target to search for. */
async function refused(error: unknown, ctx: CreateCtx<typeof lbTargetKind>): Promise<never> {
  if (wasNotCarriedOut(error)) await ctx.record({})
  throw error
}

/** Throws when the task has stopped, because the target of a stopped task can never become healthy. */
function requireTask({ address, port }: Target, seen: TargetSeen | undefined, task: TaskSeen | undefined): void {
  if (task?.status !== 'STOPPED') return
  const why = task.stoppedReason ?? 'ECS gave no reason'
  const last = seen?.reason === undefined ? '' : ` The load balancer last reported: ${seen.reason}.`
  throw new EbbError('launch_failed', `Its task stopped before the target ${address}:${port} was healthy: ${why}.${last}`)
}

function neverHealthy({ address, port }: Target, seen: TargetSeen | undefined, withinMs: number): EbbError {
  const last = `${seen?.state ?? 'not registered'}${seen?.reason === undefined ? '' : ` (${seen.reason})`}`
  return new EbbError(
    'launch_failed',
    `The target ${address}:${port} did not become healthy within ${Math.round(withinMs / 1_000)} s, it is ${last}; ` +
      'check the health check of the target group, and that the security group lets the load balancer in.',
  )
}
