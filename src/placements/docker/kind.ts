import type { Policy } from '../../core/model/close-request.ts'
import { EbbError, sentence } from '../../core/model/errors.ts'
import { chainTag, containerTag, environmentTagName, isSafeId, type Mark, scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Presence, type Proof, present, unknown } from '../../core/model/resource.ts'
import { logLabels } from '../../core/ports/agent-log.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { CreateCtx, Created, Ctx, Found, IntentOf, Owner, ResourceKind, StepEffect } from '../../core/ports/kind.ts'
import { copyOutput } from './copy.ts'
import { statusOf } from './daemon.ts'
import type { Followers } from './follower.ts'
import {
  type ContainerDetail,
  type ContainerHandle,
  type ContainerSpec,
  containerKind,
  containerLabels,
  type Docker,
  type DockerQueries,
  type SeenContainer,
} from './ports.ts'
import { markOf, requireSame } from './same-daemon.ts'

/**
 * A container, from its creation to the daemon's answer that it does not exist. What runs in it is a separate resource (run.ts), so that
 * its end is observed while its output can still be copied. A container is identified by its labels, never by its name: a foreign container
 * may have the same name, and an own one may be renamed (G10).
 */

export interface ContainerRef extends ContainerSpec {
  readonly mark: Mark
  readonly name: string
  readonly detail: ContainerDetail | undefined
}

export interface ContainerDeps {
  readonly docker: Docker
  readonly queries: DockerQueries
  readonly effects: Effects
  readonly clock: Clock
  readonly followers: Followers
  readonly inheritedTag: string | undefined
  /** Scopes whose container ended while the daemon did not answer. The kind in run.ts adds them. */
  readonly missedEnds: Set<string>
  /** The limit of each output stream in bytes, unless the launch sets one. */
  readonly mostBytes: number
}

/**
 * How long an order may be in progress after the client that sent it has died. The daemon still creates the container: after 50 ms when
 * measured, after many seconds on slow storage. The daemon reserves the name at once, and `isNameFree` detects that.
 */
const settlingMs = 1_500

/** Removing thirty containers at once, beside other work, takes the daemon ten seconds on two cores. */
export const patienceMs = 60_000

/** The daemon refused the order: nothing was created, and nothing will be. */
const refusals: ReadonlySet<number | undefined> = new Set([400, 404, 409])

export class ContainerKind implements ResourceKind<typeof containerKind, ContainerRef> {
  readonly kind = containerKind
  readonly outlivesPower = true
  readonly isRemote = true
  /**
   * The order of a container may take 25 s (docker.ts), and the query for the daemon's identity 4 s. The rest is for writing the ledger.
   */
  readonly createBudgetMs = 40_000
  readonly #deps: ContainerDeps
  /** Ids of the resources whose order cannot be in progress any more. */
  readonly #settled = new Set<string>()
  readonly #removals = new Map<string, Promise<boolean>>()
  /** Ids of containers whose removal the current daemon confirmed. The confirmation proves that the container belonged to this daemon. */
  readonly #removed = new Set<string>()

  constructor(deps: ContainerDeps) {
    this.#deps = deps
  }

  name(intent: IntentOf<typeof containerKind>): ContainerRef {
    const mark = { installation: intent.spec.installation, incarnation: intent.incarnation, resourceId: intent.id }
    return { ...intent.spec, mark, name: `ebb-${intent.id}`, detail: intent.detail }
  }

  describe({ name, image }: ContainerRef): string {
    return `${name} of ${image}`
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  async create(ref: ContainerRef, _spec: ContainerSpec, ctx: CreateCtx<typeof containerKind>): Promise<Created<typeof containerKind>> {
    const { docker, queries, inheritedTag } = this.#deps
    const { env, ...live } = ctx.live
    const [stdout, stderr] = logLabels.map((label) => ctx.handles.find(label)?.path)
    const daemon = await markOf(queries)
    const detail: ContainerDetail = {
      ...(stdout !== undefined && stderr !== undefined && { paths: { stdout, stderr } }),
      ...(daemon && { daemon }),
    }
    await ctx.record(detail)
    try {
      const id = await docker.create({
        ...live,
        name: ref.name,
        image: ref.image,
        labels: labelsOf(ref),
        env: { ...env, [environmentTagName]: chainTag(inheritedTag, containerTag(ref.mark)) },
      })
      return { detail: { ...detail, id }, handle: this.#handle(ref, id, detail) }
    } catch (error) {
      if (!refusals.has(statusOf(error))) throw error
      this.#settled.add(ref.mark.resourceId)
      throw refusalOf(ref, error)
    }
  }

  async resume(ref: ContainerRef): Promise<ContainerHandle | undefined> {
    const { mark, detail } = ref
    if (detail?.id === undefined) return undefined
    const handle = this.#handle(ref, detail.id, detail)
    if (detail.paths) this.#deps.followers.start(scopeOfResource(mark.resourceId), { ...handle, paths: detail.paths })
    return handle
  }

  #handle(ref: ContainerRef, id: string, { paths, daemon }: ContainerDetail): ContainerHandle {
    return { id, paths, daemon, mostBytes: this.#mostBytes(ref) }
  }

  #mostBytes({ mostBytes }: ContainerRef): number {
    return mostBytes ?? this.#deps.mostBytes
  }

  async observe(ref: ContainerRef, ctx: Ctx): Promise<Presence> {
    const [seen] = await this.#all(ref, ctx.signal)
    if (seen) return present(`${seen.name}, ${seen.state}`)
    if (ref.detail?.id === undefined || !this.#removed.has(ref.detail.id))
      await requireSame(this.#deps.queries, ref.detail?.daemon, ctx.signal)
    if (this.#mayAppear(ref)) {
      await delay(ctx.clock, settlingMs)
      const late = await this.#settle(ref, ctx.signal)
      if (late) return late
      this.#settled.add(ref.mark.resourceId)
    }
    // The follower of a container that somebody else removed may still be writing. The log must not change after `absent` is reported.
    await this.#deps.followers.stop(scopeOfResource(ref.mark.resourceId))
    this.#deps.missedEnds.delete(scopeOfResource(ref.mark.resourceId))
    return absent({ method: 'no such container', strength: 'api', at: ctx.clock.wall() })
  }

  /** True when the container was ordered, and the outcome of the order is unknown. */
  #mayAppear({ mark, detail }: ContainerRef): boolean {
    return detail !== undefined && detail.id === undefined && !this.#settled.has(mark.resourceId)
  }

  /** Checks whether the container can still appear. Returns undefined when it cannot: it does not exist, and no order holds its name. */
  async #settle(ref: ContainerRef, signal: AbortSignal): Promise<Presence | undefined> {
    const { queries } = this.#deps
    const isFree = await queries.isNameFree(ref.name, signal)
    // Containers are listed after the name was checked, so that a container that was created before the check is seen.
    const [late] = await this.#all(ref, signal)
    if (late) return present(`${late.name}, ${late.state}`)
    // A foreign container has the name, so the order was refused.
    if (isFree || (await queries.inspect(ref.name, signal))) return undefined
    return unknown(`The Docker daemon is still creating ${ref.name}, which an earlier process ordered.`)
  }

  /**
   * Finds containers by their labels, whatever their name and id. Recreating a container copies its labels, and an image made from it
   * (`docker commit`) carries them into all containers started from that image.
   */
  async #all({ mark }: ContainerRef, signal?: AbortSignal): Promise<readonly SeenContainer[]> {
    const labels = { [containerLabels.installation]: mark.installation, [containerLabels.resource]: mark.resourceId }
    return await this.#deps.queries.list(labels, signal)
  }

  patienceMs(): number {
    return patienceMs
  }

  obligations({ detail }: ContainerRef, policy: Policy): readonly string[] {
    return policy.keepsLogs && detail?.paths ? ['output'] : []
  }

  /** Reads the whole output again and writes what is missing: the end of the follower proves nothing (G3). */
  async meet(_obligation: string, ref: ContainerRef, { signal, note }: Ctx): Promise<void> {
    await this.#deps.followers.stop(scopeOfResource(ref.mark.resourceId))
    const id = await this.#idOf(ref, signal)
    if (id === undefined || !ref.detail?.paths) return
    if (this.#deps.missedEnds.has(scopeOfResource(ref.mark.resourceId)))
      note?.('The Docker daemon did not answer when the container ended, so its last output may be missing.')
    try {
      const mostBytes = this.#mostBytes(ref)
      const copied = await copyOutput(this.#deps, id, ref.detail.paths, { follows: false, signal, mostBytes })
      if (copied.isShortened) note?.("The daemon's log of the container was shortened, so some output may be missing or repeated.")
      if (copied.isCut) note?.(`The container wrote more than ${mostBytes} bytes to a stream; the rest was discarded.`)
    } catch (error) {
      // 409: somebody else is removing the container, and the daemon does not give its output any more. Waiting would not help.
      if (statusOf(error) !== 404 && statusOf(error) !== 409) throw error
      await requireSame(this.#deps.queries, ref.detail.daemon, signal)
      note?.('Somebody else removed the container, so its last output may be missing.')
    }
  }

  /**
   * The id of the container that this launch created. When the daemon's answer was lost, it is the oldest one with its labels; lists are
   * newest first.
   */
  async #idOf(ref: ContainerRef, signal?: AbortSignal): Promise<string | undefined> {
    return ref.detail?.id ?? (await this.#all(ref, signal)).at(-1)?.id
  }

  async release(ref: ContainerRef): Promise<StepEffect> {
    await this.#deps.followers.stop(scopeOfResource(ref.mark.resourceId))
    await Promise.all((await this.#all(ref)).map(({ id }) => this.#remove(id)))
    return {}
  }

  /** Repeated kills share one removal, because the daemon refuses a second one while the first is in progress. */
  async #remove(id: string): Promise<void> {
    let removal = this.#removals.get(id)
    if (!removal) {
      removal = this.#deps.docker.remove(id).finally(() => this.#removals.delete(id))
      this.#removals.set(id, removal)
    }
    if (await removal) this.#removed.add(id)
  }

  async gone(ref: ContainerRef, ctx: Ctx): Promise<Proof> {
    const first = await this.observe(ref, ctx)
    if (first.is === 'absent') return first.proof
    // A container that is still listed may be one that somebody else is removing, so the end of that removal is awaited.
    await Promise.all((await this.#all(ref, ctx.signal)).map(({ id }) => this.#deps.queries.removed(id, ctx.signal)))
    const seen = await this.observe(ref, ctx)
    if (seen.is !== 'absent') throw new Error(`the container ${ref.name} still exists`)
    return seen.proof
  }

  async *list(owner: Owner, { signal }: Ctx): AsyncIterable<Found<ContainerSpec>> {
    const { installation, incarnation, scope, resource } = containerLabels
    const wanted = {
      [installation]: owner.installation,
      ...(owner.incarnation !== undefined && { [incarnation]: owner.incarnation }),
    }
    for (const { name, labels } of await this.#deps.queries.list(wanted, signal)) {
      const resourceId = labels[resource] ?? ''
      if (!isSafeId(resourceId) || (owner.scopeIds && !owner.scopeIds.has(labels[scope] ?? ''))) continue
      yield { resourceId, incarnation: labels[incarnation] ?? '', name, spec: { installation: owner.installation, image: 'unknown' } }
    }
  }
}

function labelsOf({ mark }: ContainerRef): Readonly<Record<string, string>> {
  return {
    [containerLabels.installation]: mark.installation,
    [containerLabels.incarnation]: mark.incarnation,
    [containerLabels.scope]: scopeOfResource(mark.resourceId),
    [containerLabels.resource]: mark.resourceId,
  }
}

function refusalOf({ name, image }: ContainerRef, error: unknown): EbbError {
  const what =
    statusOf(error) === 409
      ? `A container ${name} exists already and is not of this launch; it was left alone. Remove or rename it.`
      : `The container of ${image} could not be created; ${sentence(error)}`
  return new EbbError('launch_refused', what, { cause: error })
}

function delay(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.after(ms, new AbortController().signal, resolve))
}
