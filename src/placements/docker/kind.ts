import type { Policy } from '../../core/model/close-request.ts'
import { EbbError, sentence } from '../../core/model/errors.ts'
import { chainTag, containerTag, environmentTagName, isSafeId, type Mark, scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Intent, type Presence, type Proof, present, unknown } from '../../core/model/resource.ts'
import type { Clock } from '../../core/ports/clock.ts'
import {
  type ContainerHandle,
  type ContainerLive,
  type ContainerSpec,
  containerLabels,
  type DaemonMark,
  type Docker,
  type DockerQueries,
  type OutputPaths,
  type SeenContainer,
} from '../../core/ports/docker.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { CreateCtx, Created, Ctx, Found, Owner, ResourceKind, StepEffect } from '../../core/ports/kind.ts'
import { type LogHandle, logLabels } from '../../core/ports/process.ts'
import { copyOutput } from './copy.ts'
import { statusOf } from './daemon.ts'
import type { Followers } from './follower.ts'
import { markOf, requireSame } from './same-daemon.ts'

/**
 * A container, from its making to the daemon's word that there is none. What runs in it is a resource of its own, so that it
 * is seen ended while all that it wrote is still there to be copied. It is known by its labels, never by its name: a foreign
 * one may have our name, and ours may be renamed (G10).
 */

export const container = 'container'

/** In the ledger before the daemon is asked: from then on there may be one. */
interface ContainerDetail {
  readonly paths?: OutputPaths
  readonly daemon?: DaemonMark
  /** The daemon's own, once it has answered. */
  readonly id?: string
}

export interface ContainerRef extends ContainerSpec {
  readonly mark: Mark
  readonly name: string
  readonly detail: ContainerDetail | undefined
}

export interface ContainerDeps {
  readonly docker: Docker
  readonly looks: DockerQueries
  readonly effects: Effects
  readonly clock: Clock
  readonly followers: Followers
  readonly inheritedTag: string | undefined
  /** Scopes whose container ended while the daemon did not answer (run.ts). */
  readonly unheard: Set<string>
  /** How much a stream may bring where its launch says nothing about it. */
  readonly mostBytes: number
}

/**
 * A daemon that was asked by somebody who died makes the container all the same: after 50 ms here, after many seconds where its
 * storage is slow. From the first moment on it has given its name away, which can be asked. So long an order may be on its way.
 */
const settlingMs = 1_500

/** A daemon that removes thirty at once, beside other work, takes ten seconds for it, measured on two cores. */
export const patienceMs = 60_000

/** The daemon has looked at the order and will not do it: nothing was made, and nothing will be. */
const refusals: ReadonlySet<number | undefined> = new Set([400, 404, 409])

export class ContainerKind implements ResourceKind<ContainerSpec, ContainerRef> {
  readonly kind = container
  readonly outlivesPower = true
  readonly isRemote = true
  /** The order has 25 s (docker.ts), the question who the daemon is 4 s, and the ledger is written in between. */
  readonly createBudgetMs = 40_000
  readonly #deps: ContainerDeps
  /** Of which it is certain that no order is under way any more. */
  readonly #settled = new Set<string>()
  readonly #removals = new Map<string, Promise<boolean>>()
  /** Of which the daemon said that it has removed them: it is the one that had them. */
  readonly #removed = new Set<string>()

  constructor(deps: ContainerDeps) {
    this.#deps = deps
  }

  name(intent: Intent<ContainerSpec>): ContainerRef {
    const mark = { installation: intent.spec.installation, incarnation: intent.incarnation, resourceId: intent.id }
    return { ...intent.spec, mark, name: `ebb-${intent.id}`, detail: intent.detail as ContainerDetail | undefined }
  }

  describe({ name, image }: ContainerRef): string {
    return `${name} of ${image}`
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  async create(ref: ContainerRef, _spec: ContainerSpec, ctx: CreateCtx): Promise<Created> {
    const { docker, looks, inheritedTag } = this.#deps
    const { env, ...live } = ctx.live as ContainerLive
    const [stdout, stderr] = logLabels.map((label) => (ctx.handle(label) as LogHandle | undefined)?.path)
    const daemon = await markOf(looks)
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
      return { detail: { ...detail, id } satisfies ContainerDetail, handle: this.#handle(ref, id, detail) }
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
      await requireSame(this.#deps.looks, ref.detail?.daemon, ctx.signal)
    if (this.#mayAppear(ref)) {
      await passes(ctx.clock, settlingMs)
      const late = await this.#settle(ref, ctx.signal)
      if (late) return late
      this.#settled.add(ref.mark.resourceId)
    }
    // Of one that somebody else removed, what had come is being written: the log must not change once this is said.
    await this.#deps.followers.stop(scopeOfResource(ref.mark.resourceId))
    this.#deps.unheard.delete(scopeOfResource(ref.mark.resourceId))
    return absent({ method: 'no such container', strength: 'api', at: ctx.clock.wall() })
  }

  /** It was ordered, and nobody heard what became of the order. */
  #mayAppear({ mark, detail }: ContainerRef): boolean {
    return detail !== undefined && detail.id === undefined && !this.#settled.has(mark.resourceId)
  }

  /** Undefined when it is certain that none will come: there is none, and no order has its name. */
  async #settle(ref: ContainerRef, signal: AbortSignal): Promise<Presence | undefined> {
    const { looks } = this.#deps
    const isFree = await looks.isNameFree(ref.name, signal)
    // Only now: one that was made before the name was asked for is seen.
    const [late] = await this.#all(ref, signal)
    if (late) return present(`${late.name}, ${late.state}`)
    // Somebody else's has it, so ours was refused.
    if (isFree || (await looks.inspect(ref.name, signal))) return undefined
    return unknown(`The Docker daemon is making ${ref.name}, for somebody who is gone.`)
  }

  /**
   * By its labels, whatever its name is by now, and whatever its id: who makes a container anew gives it the labels of the old one, and
   * an image that was made of it carries them to all that is started from that.
   */
  async #all({ mark }: ContainerRef, signal?: AbortSignal): Promise<readonly SeenContainer[]> {
    const labels = { [containerLabels.installation]: mark.installation, [containerLabels.resource]: mark.resourceId }
    return await this.#deps.looks.list(labels, signal)
  }

  patienceMs(): number {
    return patienceMs
  }

  obligations({ detail }: ContainerRef, policy: Policy): readonly string[] {
    return policy.keepsLogs && detail?.paths ? ['output'] : []
  }

  /** All of it once more, and only what is missing is written: that the follower had come to its end proves nothing (G3). */
  async meet(_obligation: string, ref: ContainerRef, { signal, note }: Ctx): Promise<void> {
    await this.#deps.followers.stop(scopeOfResource(ref.mark.resourceId))
    const id = await this.#idOf(ref, signal)
    if (id === undefined || !ref.detail?.paths) return
    if (this.#deps.unheard.has(scopeOfResource(ref.mark.resourceId)))
      note?.('The Docker daemon did not answer when it ended, so what it wrote last may be missing.')
    try {
      const mostBytes = this.#mostBytes(ref)
      const copied = await copyOutput(this.#deps, id, ref.detail.paths, { follows: false, signal, mostBytes })
      if (copied.isShortened)
        note?.("Somebody shortened the daemon's log of it, so some of what it wrote may be missing, or be there twice.")
      if (copied.isCut) note?.(`It wrote more than ${mostBytes} bytes on a stream; what came after them is not kept.`)
    } catch (error) {
      // 409: somebody else is removing it, and the daemon shows nothing of it any more. There is nothing to wait for.
      if (statusOf(error) !== 404 && statusOf(error) !== 409) throw error
      await requireSame(this.#deps.looks, ref.detail.daemon, signal)
      note?.('It was removed by somebody else, so what it wrote last may be missing.')
    }
  }

  /** Of the one that we made. Where nobody heard the daemon's answer, the first with our labels; the newest is listed first. */
  async #idOf(ref: ContainerRef, signal?: AbortSignal): Promise<string | undefined> {
    return ref.detail?.id ?? (await this.#all(ref, signal)).at(-1)?.id
  }

  async release(ref: ContainerRef): Promise<StepEffect> {
    await this.#deps.followers.stop(scopeOfResource(ref.mark.resourceId))
    await Promise.all((await this.#all(ref)).map(({ id }) => this.#remove(id)))
    return {}
  }

  /** A kill that is repeated joins the first: the daemon would refuse it, because it is at it. */
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
    // Somebody else is at it, and has not finished.
    await Promise.all((await this.#all(ref, ctx.signal)).map(({ id }) => this.#deps.looks.removed(id, ctx.signal)))
    const seen = await this.observe(ref, ctx)
    if (seen.is !== 'absent') throw new Error(`${ref.name} is still there`)
    return seen.proof
  }

  async *list(owner: Owner, { signal }: Ctx): AsyncIterable<Found> {
    const { installation, incarnation, scope, resource } = containerLabels
    const wanted = {
      [installation]: owner.installation,
      ...(owner.incarnation !== undefined && { [incarnation]: owner.incarnation }),
    }
    for (const { name, labels } of await this.#deps.looks.list(wanted, signal)) {
      const resourceId = labels[resource] ?? ''
      if (!isSafeId(resourceId) || (owner.scopeIds && !owner.scopeIds.has(labels[scope] ?? ''))) continue
      const spec: ContainerSpec = { installation: owner.installation, image: 'unknown' }
      yield { resourceId, incarnation: labels[incarnation] ?? '', name, spec }
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
      ? `There is a container ${name} already, and it is not of this launch; it was left alone. Remove or rename it.`
      : `The container of ${image} could not be made; ${sentence(error)}`
  return new EbbError('launch_refused', what, { cause: error })
}

function passes(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.after(ms, new AbortController().signal, resolve))
}
