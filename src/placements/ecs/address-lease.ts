import { EbbError } from '../../core/model/errors.ts'
import type { Mark } from '../../core/model/identity.ts'
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
import { type Aws, type AwsQueries, isAwsTrouble, type ObjectSeen } from './aws.ts'
import { taskLabel } from './ecs-task.ts'
import { holderOf, leaseAt, leaseCluster, leasesOf, leaseTask } from './leases.ts'
import { isOwn, metadataNames, metadataOf, ownedMark } from './mark.ts'
import { delay, jittered, wasNotCarriedOut } from './patience.ts'
import { remember, Unconfirmed } from './settling.ts'
import type { BucketPlace, LeaseSpec } from './specs.ts'
import { type AwsTimes, createBudgetMs, settleMarginMs } from './times.ts'

/**
 * The lease of an address: one agent owns an address at a time, also across hosts. The lease is an object in S3, created on the condition
 * that there is none, and deleted after the task has stopped. A lease whose task is gone is taken over. A lease whose task runs, or whose
 * state is unknown, is left alone and fails the launch.
 */

/** What the ledger records before the lease is written. Empty when the only write was refused. */
export interface LeaseDetail {
  readonly address?: string
  /** True when S3 confirmed the write. Until then a write may still be in progress. */
  readonly isMade?: boolean
}

export const addressLeaseKind = kindName<{ spec: LeaseSpec; detail: LeaseDetail }>('address-lease')

export interface LeaseRef extends LeaseSpec {
  readonly mark: Mark
  readonly isMade: boolean
}

export interface LeaseDeps {
  readonly aws: Aws
  readonly queries: AwsQueries
  readonly times: AwsTimes
  readonly installation: string
  /** The place in S3 where a listing searches for leases. Undefined when no bucket is configured. */
  readonly place: BucketPlace | undefined
}

/** Attempts to write a lease when several writers compete for one address. */
const mostAttempts = 6

export class AddressLeaseKind implements ResourceKind<typeof addressLeaseKind, LeaseRef> {
  readonly kind = addressLeaseKind
  readonly outlivesPower = true
  readonly isRemote = true
  readonly goesLast = true
  readonly createBudgetMs = createBudgetMs
  readonly #deps: LeaseDeps
  /** The etag of the lease when it was last observed to be this agent's. Only the object with this etag is deleted. */
  readonly #seen = new Map<string, string>()
  readonly #unconfirmed: Unconfirmed

  constructor(deps: LeaseDeps) {
    this.#deps = deps
    this.#unconfirmed = new Unconfirmed(deps.times.settleMs)
  }

  name(intent: IntentOf<typeof addressLeaseKind>): LeaseRef {
    const mark = { installation: intent.spec.installation, incarnation: intent.incarnation, resourceId: intent.id }
    const { detail } = intent
    const address = detail?.address ?? intent.spec.address
    return { ...intent.spec, mark, isMade: detail?.isMade ?? true, ...(address !== undefined && { address }) }
  }

  describe({ bucket, prefix, address, mark }: LeaseRef): string {
    return address === undefined ? `lease of ${mark.resourceId}` : `s3://${bucket}/${prefix}/leases/${address}`
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  /** How long a release waits for the lease to be gone. A write that was not confirmed may still take effect for a while. */
  patienceMs({ isMade }: LeaseRef): number {
    return isMade ? 0 : this.#deps.times.settleMs + settleMarginMs
  }

  async create(ref: LeaseRef, _spec: LeaseSpec, ctx: CreateCtx<typeof addressLeaseKind>): Promise<Created<typeof addressLeaseKind>> {
    const { address, arn, cluster } = ctx.handles.get(taskLabel)
    await ctx.record({ address, isMade: false })
    const made = { detail: { address, isMade: true } }
    const call = { signal: ctx.signal, clock: ctx.clock, letsAnswer: true } as const
    const object = leaseAt(ref, address)
    const metadata = { ...metadataOf(ref.mark), [leaseTask]: arn, [leaseCluster]: cluster }
    const body = `${JSON.stringify({ address, ...metadata }, null, 2)}\n`
    let replaces: string | undefined
    for (let attempt = 1; attempt <= mostAttempts; attempt++) {
      try {
        await this.#deps.aws.putLease({ ...object, metadata, ...(replaces !== undefined && { replaces }) }, body, call)
        return made
      } catch (error) {
        // `absent` means that the lease that was to be replaced is gone.
        if (!isAwsTrouble(error, 'taken', 'absent')) {
          if (attempt === 1 && wasNotCarriedOut(error)) await ctx.record({})
          throw error
        }
      }
      const seen = await this.#deps.queries.head(object, ctx)
      // An own lease after a failed write means that the write succeeded and its reply was lost.
      if (seen && isOwn(ref.mark, seen.metadata)) return made
      if (seen) await this.#requireGone(address, seen, ctx)
      replaces = seen?.etag
      await delay(ctx.clock, jittered(attempt, 10, 500), ctx.signal)
    }
    throw new EbbError(
      'launch_failed',
      `The lease of the address ${address} could not be acquired, because other writers changed it at each of ${mostAttempts} attempts; launch again.`,
    )
  }

  async #requireGone(address: string, seen: ObjectSeen, ctx: Ctx): Promise<void> {
    const holder = await holderOf(this.#deps.queries, seen, ctx)
    if (holder === 'is-gone') return
    const {
      [metadataNames.resource]: resource = 'an unknown owner',
      [metadataNames.installation]: installation,
      [leaseTask]: task,
    } = seen.metadata
    const whose = installation === this.#deps.installation ? resource : `${resource} of another installation`
    const why = holder === 'lives' ? `whose task ${task} runs` : 'whose task cannot be queried'
    throw new EbbError('launch_failed', `The address ${address} is leased to ${whose}, ${why}; use another ecs.prefix for another network.`)
  }

  async observe(ref: LeaseRef, ctx: Ctx): Promise<Presence> {
    if (ref.address === undefined) return absent({ method: 'PutObject was never called', strength: 'api', at: ctx.clock.wall() })
    const seen = await this.#deps.queries.head(leaseAt(ref, ref.address), ctx)
    const proof = (method: string): Presence => absent({ method, strength: 'api', at: ctx.clock.wall() })
    if (seen && isOwn(ref.mark, seen.metadata)) {
      remember(this.#seen, ref.mark.resourceId, seen.etag)
      this.#unconfirmed.seen(ref.mark.resourceId)
      return present(`leased to ${ref.mark.resourceId}`)
    }
    this.#seen.delete(ref.mark.resourceId)
    const leftMs = seen || ref.isMade ? 0 : this.#unconfirmed.leftMs(ref.mark.resourceId, ctx.clock)
    if (leftMs > 0)
      return unsettled(
        `The write of its lease was not confirmed, so the lease may still appear; it is observed for ${Math.ceil(leftMs / 1_000)} s.`,
      )
    return proof(seen ? 'HeadObject: another lease has replaced it' : 'HeadObject: 404')
  }

  async release(ref: LeaseRef, _step: LadderStep, ctx: Ctx): Promise<StepEffect> {
    const etag = this.#seen.get(ref.mark.resourceId)
    if (ref.address === undefined || etag === undefined) return {}
    try {
      await this.#deps.aws.deleteLease(leaseAt(ref, ref.address), etag, ctx)
    } catch (error) {
      // The lease was taken over between the observation and the deletion, so it is foreign now.
      if (!isAwsTrouble(error, 'taken')) throw error
    }
    return {}
  }

  async gone(_ref: LeaseRef, ctx: Ctx): Promise<Proof> {
    return { method: 'DeleteObject', strength: 'api', at: ctx.clock.wall() }
  }

  /** Lists leases for the reaper only. A close reads the address from the ledger, where it was recorded before the lease was written. */
  async *list(owner: Owner, ctx: Ctx): AsyncIterable<Found<LeaseSpec>> {
    const { queries, place, installation } = this.#deps
    if (owner.scopeIds || !place) return
    for (const { address, seen } of await leasesOf(queries, place, installation, ctx)) {
      const mark = ownedMark(owner, seen.metadata)
      if (!mark) continue
      yield {
        resourceId: mark.resourceId,
        incarnation: mark.incarnation,
        name: `s3://${place.bucket}/${place.prefix}/leases/${address}`,
        spec: { ...place, installation, address },
      }
    }
  }
}
