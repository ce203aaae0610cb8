import { EbbError, sentence } from '../../core/model/errors.ts'
import { type Mark, scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Presence, type Proof, present, unknown, unsettled } from '../../core/model/resource.ts'
import { label } from '../../core/ports/handles.ts'
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
import type { AddressHandle } from '../remote/ports.ts'
import { type Aws, type AwsQueries, isAwsTrouble, type TaskSeen } from './aws.ts'
import { isOwn, ownedMark, startedBy, tagsOf, tokenOf } from './mark.ts'
import { delay, jittered, untilAbsent, wasNotCarriedOut } from './patience.ts'
import { Settling } from './settling.ts'
import type { TaskSpec } from './specs.ts'
import { findRunning, findStopping } from './task-finder.ts'
import { type AwsTimes, createBudgetMs, stopPatienceMs } from './times.ts'

/**
 * One Fargate task, in which an Ebb runner answers. It is identified by its tags. When the reply of RunTask is lost, the task is found
 * again by its client token or by `startedBy`. STOPPED in DescribeTasks proves that nothing of it runs.
 */

/** What the ledger records about the task. Without a record, RunTask was never called, because the record is written before the call. */
export interface TaskDetail {
  /** False once ECS has answered that it started no task. */
  readonly isAsked: boolean
  readonly arn?: string
  readonly address?: string
}

export interface TaskRef extends TaskSpec {
  readonly mark: Mark
  readonly isAsked: boolean
}

export interface TaskHandle extends AddressHandle {
  readonly arn: string
  readonly cluster: string
  readonly region?: string
}

export const ecsTaskKind = kindName<{ spec: TaskSpec; detail: TaskDetail; handle: TaskHandle }>('ecs-task')
export const taskLabel = label<TaskHandle>('task')

export interface EcsTaskDeps {
  readonly aws: Aws
  readonly queries: AwsQueries
  readonly times: AwsTimes
  readonly installation: string
  /** The place where a listing searches for tasks, and the spec with which a found task is adopted. */
  readonly settings: Omit<TaskSpec, 'installation' | 'arn'>
}

export class EcsTaskKind implements ResourceKind<typeof ecsTaskKind, TaskRef> {
  readonly kind = ecsTaskKind
  readonly outlivesPower = true
  readonly isRemote = true
  readonly createBudgetMs = createBudgetMs
  readonly #deps: EcsTaskDeps
  readonly #settling: Settling

  constructor(deps: EcsTaskDeps) {
    this.#deps = deps
    this.#settling = new Settling(deps.times.settleMs)
  }

  name(intent: IntentOf<typeof ecsTaskKind>): TaskRef {
    const mark = { installation: intent.spec.installation, incarnation: intent.incarnation, resourceId: intent.id }
    const { detail } = intent
    const arn = detail?.arn ?? intent.spec.arn
    return { ...intent.spec, mark, isAsked: detail?.isAsked === true || arn !== undefined, ...(arn !== undefined && { arn }) }
  }

  describe({ arn, cluster, taskDefinition, mark }: TaskRef): string {
    return arn ?? `task ${taskDefinition} of ${mark.resourceId} in ${cluster}`
  }

  /** The steps that end a task. ECS sends SIGTERM, and SIGKILL after the container's `stopTimeout`. */
  steps(): readonly LadderStep[] {
    return ['terminate', 'kill']
  }

  patienceMs(): number {
    return stopPatienceMs
  }

  async create(ref: TaskRef, spec: TaskSpec, ctx: CreateCtx<typeof ecsTaskKind>): Promise<Created<typeof ecsTaskKind>> {
    await ctx.record({ isAsked: true })
    const { cluster, region, taskDefinition, subnets, securityGroups, assignPublicIp } = spec
    const order = { cluster, taskDefinition, subnets, securityGroups, assignPublicIp, ...(region !== undefined && { region }) }
    const identity = { clientToken: tokenOf(ref.mark), startedBy: startedBy(scopeOfResource(ref.mark.resourceId)), tags: tagsOf(ref.mark) }
    const call = { signal: ctx.signal, clock: ctx.clock, letsAnswer: true } as const
    const { arn } = await this.#deps.aws.runTask({ ...order, ...identity }, call).catch((error: unknown) => refused(error, ctx))
    await ctx.record({ isAsked: true, arn })
    const address = await this.#untilRunning({ ...ref, arn }, ctx)
    const handle = { address, arn, cluster, ...(region !== undefined && { region }) }
    return { handle, detail: { isAsked: true, arn, address } }
  }

  async #untilRunning(ref: TaskRef & { readonly arn: string }, ctx: Ctx): Promise<string> {
    const { firstObserveDelayMs, longestObserveDelayMs } = this.#deps.times
    for (let attempt = 1; !ctx.signal.aborted; attempt++) {
      const seen = await this.#describe(ref, ctx)
      if (seen?.status === 'RUNNING' && seen.address !== undefined) return seen.address
      // A task that is stopping or has stopped never runs again.
      if (seen && /^(DEACTIVATING|STOPPING|DEPROVISIONING|STOPPED)$/.test(seen.status))
        throw new EbbError('launch_failed', `The task ${ref.arn} stopped before it ran: ${seen.stoppedReason ?? 'ECS gave no reason'}.`)
      await delay(ctx.clock, jittered(attempt, firstObserveDelayMs, longestObserveDelayMs), ctx.signal)
    }
    throw new EbbError('scope_closed', `Its scope was closed while the task ${ref.arn} was starting.`)
  }

  async #describe({ cluster, region, arn }: TaskRef & { readonly arn: string }, ctx: Ctx): Promise<TaskSeen | undefined> {
    const { tasks } = await this.#deps.queries.describeTasks({ cluster, ...(region !== undefined && { region }) }, [arn], ctx)
    return tasks.find((task) => task.arn === arn)
  }

  async observe(ref: TaskRef, ctx: Ctx): Promise<Presence> {
    if (!ref.isAsked) return absent({ method: 'RunTask was not called, or was refused', strength: 'api', at: ctx.clock.wall() })
    const seen = await this.#find(ref, ctx)
    if (!seen) return this.#missing(ref, ctx)
    this.#settling.seen(ref.mark.resourceId)
    if (!isOwn(ref.mark, seen.tags))
      return unknown(
        `The task ${seen.arn} does not carry the tags of ${ref.mark.resourceId}, so it is not touched; check it in the AWS console.`,
      )
    if (seen.status === 'STOPPED') return absent({ method: 'DescribeTasks: STOPPED', strength: 'api', at: ctx.clock.wall() })
    return present(`${seen.arn} is ${seen.status}`)
  }

  /** Finds the task by its ARN, or by its tags when the reply with the ARN was lost. */
  async #find(ref: TaskRef, ctx: Ctx): Promise<TaskSeen | undefined> {
    const { arn } = ref
    if (arn !== undefined) return await this.#describe({ ...ref, arn }, ctx)
    const { queries } = this.#deps
    const scopes = new Set([scopeOfResource(ref.mark.resourceId)])
    const running = (await findRunning(queries, ref, scopes, ctx)).find(({ tags }) => isOwn(ref.mark, tags))
    return running ?? (await findStopping(queries, ref, ctx)).find(({ tags }) => isOwn(ref.mark, tags))
  }

  #missing({ mark, arn }: TaskRef, ctx: Ctx): Presence {
    const { isLong, leftMs } = this.#settling.missing(mark.resourceId, ctx.clock)
    const method = arn === undefined ? 'ListTasks: no task has its tags' : 'DescribeTasks: MISSING'
    if (isLong) return absent({ method: `${method}, for ${this.#deps.times.settleMs / 1_000} s`, strength: 'api', at: ctx.clock.wall() })
    return unsettled(`ECS does not show the task, which may be a delay; it is observed for ${Math.ceil(leftMs / 1_000)} s.`)
  }

  async release(ref: TaskRef, _step: LadderStep, ctx: Ctx): Promise<StepEffect> {
    const seen = ref.arn === undefined ? await this.#find(ref, ctx) : { arn: ref.arn }
    const { cluster, region } = ref
    if (seen)
      await this.#deps.aws.stopTask({ cluster, arn: seen.arn, ...(region !== undefined && { region }) }, 'ebb: its scope was closed', ctx)
    return {}
  }

  async gone(ref: TaskRef, ctx: Ctx): Promise<Proof> {
    return await untilAbsent(this, ref, this.#deps.times, ctx)
  }

  async *list(owner: Owner, ctx: Ctx): AsyncIterable<Found<TaskSpec>> {
    const { queries, settings, installation } = this.#deps
    for (const task of await findRunning(queries, settings, owner.scopeIds, ctx)) {
      const mark = task.status === 'STOPPED' ? undefined : ownedMark(owner, task.tags)
      if (!mark) continue
      const { resourceId, incarnation } = mark
      yield { resourceId, incarnation, name: task.arn, spec: { ...settings, installation, arn: task.arn } }
    }
  }
}

/** Handles a failed call of RunTask. When the only attempt was refused, the ledger records that there is no task to search for. */
async function refused(error: unknown, ctx: CreateCtx<typeof ecsTaskKind>): Promise<never> {
  if (wasNotCarriedOut(error)) await ctx.record({ isAsked: false })
  if (!isAwsTrouble(error, 'refused', 'denied', 'credentials')) throw error
  throw new EbbError('launch_failed', sentence(error), { cause: error })
}
