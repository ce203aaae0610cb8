import { EbbError, sentence } from '../../core/model/errors.ts'
import { type Mark, scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Presence, type Proof, present } from '../../core/model/resource.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Effects, Exit } from '../../core/ports/effects.ts'
import type { Label } from '../../core/ports/handles.ts'
import type { CreateCtx, Created, Ctx, IntentOf, ResourceKind, StepEffect } from '../../core/ports/kind.ts'
import { type TreeHandle, treeLabel } from '../../core/ports/process.ts'
import { statusOf } from './daemon.ts'
import { ExitWatch, exitOf, unknownExit, type Watched } from './exit-watch.ts'
import { type Followers, isRunning } from './follower.ts'
import { patienceMs } from './kind.ts'
import {
  type ContainerRunDetail,
  type ContainerRunSpec,
  containerLabel,
  containerLabels,
  containerRunKind,
  type Docker,
  type DockerQueries,
  type InputTransfer,
  type InspectedContainer,
  type SeenContainer,
} from './ports.ts'
import { requireSame } from './same-daemon.ts'
import { ignoresSignal, isOfContainer } from './signal-handlers.ts'
import { inTime, isDoneIn } from './waits.ts'

/**
 * The processes in a container. They all end with its main process, because the kernel kills a pid namespace with its init
 * (pid_namespaces(7)).
 */

export interface ContainerRunRef extends ContainerRunSpec, ContainerRunDetail {
  readonly mark: Mark
}

export interface ContainerRunDeps {
  readonly docker: Docker
  readonly effects: Effects
  readonly queries: DockerQueries
  readonly clock: Clock
  readonly followers: Followers
  /** Scopes whose container ended while the daemon did not answer. The kind `container` reports the missed end (kind.ts). */
  readonly missedEnds: Set<string>
}

/** The daemon registers a wait within milliseconds. */
const registerMs = 10_000
/** The daemon takes the input within a millisecond, unless it is larger than the pipe buffers and the program does not read. */
const inputMs = 1_000
/**
 * The daemon processes thirty exits in a second. A container that still runs at a later kill may be frozen without the daemon's knowledge
 * (cgroup v1). A direct SIGKILL then waits for ever, whereas the daemon thaws the container after its own.
 */
const directKillMs = 2_000

/**
 * The runtimes whose containers are processes of this host. Others, such as those with a kernel of their own, must kill their containers
 * themselves.
 */
const hostRuntimes = /^(runc|crun|io\.containerd\.runc\.v\d+)$/

export class ContainerRunKind implements ResourceKind<typeof containerRunKind, ContainerRunRef> {
  readonly kind = containerRunKind
  readonly runsAgent = true
  readonly outlivesPower = true
  readonly isRemote = true
  /** The time to register the wait for the exit, attach and start (each has a timeout of its own: docker.ts), send the input, observe. */
  readonly createBudgetMs = 70_000
  readonly #deps: ContainerRunDeps
  readonly #watches = new Map<string, ExitWatch>()
  /** The time at which each container was first killed by a direct SIGKILL, in milliseconds of the clock, by container id. */
  readonly #killedMs = new Map<string, number>()

  constructor(deps: ContainerRunDeps) {
    this.#deps = deps
  }

  planLabel(): Label<TreeHandle> {
    return treeLabel
  }

  name(intent: IntentOf<typeof containerRunKind>): ContainerRunRef {
    const mark = { installation: intent.spec.installation, incarnation: intent.incarnation, resourceId: intent.id }
    return { ...intent.spec, mark, ...intent.detail }
  }

  /** The description does not contain the container's id, because a run is also described before its container exists. */
  describe({ program, mark }: ContainerRunRef): string {
    return `${program} in the container of ${scopeOfResource(mark.resourceId)}`
  }

  /** Leaves out the steps whose signal the main process ignores. Sending such a signal would only cost the daemon's time. */
  steps(ref: ContainerRunRef): readonly LadderStep[] {
    const known = ref.politeSignal ? (['polite', 'terminate'] as const) : (['terminate'] as const)
    const isReached = (step: LadderStep): boolean =>
      ref.id === undefined || ref.pid === undefined || !ignoresSignal(ref.pid, ref.id, signalOf(ref, step))
    return [...known.filter(isReached), 'kill']
  }

  async create(
    ref: ContainerRunRef,
    _spec: ContainerRunSpec,
    ctx: CreateCtx<typeof containerRunKind>,
  ): Promise<Created<typeof containerRunKind>> {
    const { docker, queries, followers } = this.#deps
    const { id, paths, mostBytes, daemon } = ctx.handles.get(containerLabel)
    const watch = this.#watch(ref, { id, daemon, isFresh: true })
    const recorded: ContainerRunDetail = { id, ...(daemon && { daemon }) }
    await Promise.all([ctx.record({ ...recorded, isBeingTold: true }), inTime(ctx.clock, registerMs, watch.registered)])
    let transfer: InputTransfer
    try {
      transfer = await docker.start(id, ctx.live.input, ctx.signal)
    } catch (error) {
      throw refusalOf(ref, error)
    }
    if (paths) followers.start(scopeOfResource(ref.mark.resourceId), { id, paths, mostBytes })
    // A missing pid is accepted. The successful start shows that the container runs.
    const seen = queries.isLocal ? queries.inspect(id).catch(() => undefined) : undefined
    const isInputSent = await isDoneIn(ctx.clock, inputMs, transfer.done)
    const pid = (await seen)?.pid
    const known: ContainerRunDetail = { ...recorded, ...(pid !== undefined && { pid }) }
    // Swallowed: when the ledger does not record that all input was sent, a later adoption assumes that the input is incomplete.
    if (!isInputSent) void transfer.done.then(() => ctx.record(known)).catch(() => {})
    const handle: TreeHandle = { exit: watch.exit, ...(pid !== undefined && { pid }) }
    return { detail: isInputSent ? known : { ...known, isBeingTold: true }, handle }
  }

  async resume(ref: ContainerRunRef): Promise<TreeHandle> {
    if (ref.isBeingTold) throw new Error('the supervisor was lost before the agent had received all of its input')
    return {
      exit: ref.id === undefined ? Promise.resolve(unknownExit) : this.#watch(ref, { id: ref.id, daemon: ref.daemon, isFresh: false }).exit,
    }
  }

  #watch(ref: ContainerRunRef, watched: Omit<Watched, 'onMissedEnd'>): ExitWatch {
    const onMissedEnd = (): void => void this.#deps.missedEnds.add(scopeOfResource(ref.mark.resourceId))
    const watch = new ExitWatch(this.#deps, { ...watched, onMissedEnd })
    this.#watches.set(ref.mark.resourceId, watch)
    return watch
  }

  /** Returns the exit of a run that has ended. Undefined when the daemon does not answer, because no answer proves no end (G4). */
  async ended(ref: ContainerRunRef): Promise<Exit | undefined> {
    // An agent that received only a part of its input would work on an incomplete prompt, so it counts as ended.
    if (ref.isBeingTold) return unknownExit
    try {
      const own = ownOf(ref, await this.#all(ref))
      if (!own) await requireSame(this.#deps.queries, ref.daemon)
      const seen = own && (await this.#deps.queries.inspect(own.id))
      return seen && isRunning(seen.state) ? undefined : exitOf(seen)
    } catch {
      return undefined
    }
  }

  async observe(ref: ContainerRunRef, ctx: Ctx): Promise<Presence> {
    const all = await this.#all(ref, ctx.signal)
    const own = ownOf(ref, all)
    if (own && isRunning(own.state)) this.#watches.get(ref.mark.resourceId)?.sawRunning()
    const running = all.find(({ state }) => isRunning(state))
    if (running) return present(`${running.name}, ${running.state}`)
    if (!own) await requireSame(this.#deps.queries, ref.daemon, ctx.signal)
    for (const { id } of all) this.#killedMs.delete(id)
    await this.#settleWatch(ref, own, ctx)
    const method = own ? `the container is ${own.state}, not running` : 'no such container'
    return absent({ method, strength: 'api', at: ctx.clock.wall() })
  }

  /** Settles the exit watch with what this observation found, because the daemon may have been away at the exit. */
  async #settleWatch({ mark }: ContainerRunRef, seen: SeenContainer | undefined, { signal }: Ctx): Promise<void> {
    const watch = this.#watches.get(mark.resourceId)
    if (!watch) return
    this.#watches.delete(mark.resourceId)
    if (watch.isSettled) return
    // Swallowed: when the query fails, the exit is unknown.
    const inspected = seen && (await this.#deps.queries.inspect(seen.id, signal).catch(() => undefined))
    watch.settle(exitOf(inspected))
  }

  /** Finds containers by the labels of the scope, which has one container. Others with the same labels are ended with it (kind.ts). */
  async #all({ mark }: ContainerRunRef, signal?: AbortSignal): Promise<readonly SeenContainer[]> {
    const labels = { [containerLabels.installation]: mark.installation, [containerLabels.scope]: scopeOfResource(mark.resourceId) }
    return await this.#deps.queries.list(labels, signal)
  }

  async #running(ref: ContainerRunRef, signal: AbortSignal): Promise<readonly string[]> {
    return (await this.#all(ref, signal)).filter(({ state }) => isRunning(state)).map(({ id }) => id)
  }

  patienceMs(): number {
    return patienceMs
  }

  async release(ref: ContainerRunRef, step: LadderStep, ctx: Ctx): Promise<StepEffect> {
    const running = await this.#running(ref, ctx.signal)
    const reached = await Promise.all(running.map((id) => this.#end(id, signalOf(ref, step), ctx)))
    if (reached.every(Boolean)) return {}
    // Containers that ignore the signal are not awaited.
    const leaving = running.filter((_, index) => reached[index]).map((id) => this.#deps.queries.stopped(id, ctx.signal))
    return { exhausted: Promise.allSettled(leaving).then(() => {}) }
  }

  /** Sends the signal of a step to one container. Returns false when the main process ignores the signal. */
  async #end(id: string, signal: NodeJS.Signals, ctx: Ctx): Promise<boolean> {
    const { docker, queries } = this.#deps
    const seen = await queries.inspect(id, ctx.signal)
    if (!seen || !isRunning(seen.state)) return true
    // Somebody may have set a restart policy, with which the daemon would start the container again.
    if (seen.restartPolicy !== 'no' && seen.restartPolicy !== '') await docker.forbidRestart(seen.id)
    // `steps` leaves out ignored signals only for containers whose pid was recorded, so the check is repeated with the observed pid.
    if (signal !== 'SIGKILL' && queries.isLocal && seen.pid !== undefined && ignoresSignal(seen.pid, seen.id, signal)) return false
    if (signal === 'SIGKILL' && this.#killsDirectly(seen)) return true
    await docker.signal(seen.id, signal)
    // A frozen process takes a pending signal as soon as it is thawed, so the container is thawed after the signal was sent.
    if (seen.state === 'paused') await docker.unpause(seen.id)
    return true
  }

  /**
   * Kills a process of the container without the daemon, which is faster: the daemon starts a program for each kill (`runc kill`), a third
   * of the time of thirty concurrent stops. Any process of the container will do, because all of them are to end. The observation of their
   * end still comes from the daemon.
   */
  #killsDirectly({ id, pid, state, runtime }: InspectedContainer): boolean {
    const { queries, clock, effects } = this.#deps
    const isHere = queries.isLocal && pid !== undefined && state === 'running' && hostRuntimes.test(runtime)
    if (!isHere || !isOfContainer(pid, id)) return false
    const firstMs = this.#killedMs.get(id) ?? clock.now()
    this.#killedMs.set(id, firstMs)
    if (clock.now() - firstMs > directKillMs) return false
    try {
      effects.signal(pid, 'SIGKILL')
      return true
    } catch {
      // The process is gone, or this user may not kill it, so the caller kills through the daemon.
      return false
    }
  }

  async gone(ref: ContainerRunRef, ctx: Ctx): Promise<Proof> {
    // When the daemon itself killed the container, this observation already finds the end, because the daemon answers a kill only after the
    // end.
    const first = await this.observe(ref, ctx)
    if (first.is === 'absent') return first.proof
    await Promise.all((await this.#running(ref, ctx.signal)).map((id) => this.#deps.queries.stopped(id, ctx.signal)))
    const seen = await this.observe(ref, ctx)
    if (seen.is !== 'absent') throw new Error(`${ref.program} was started again`)
    return seen.proof
  }

  /** Lists nothing: the kind `container` lists every container with Ebb's labels. */
  async *list(): AsyncIterable<never> {}
}

/** The container that was started. When its id is not in the ledger, it is the oldest one with the labels; lists are newest first. */
function ownOf({ id }: ContainerRunRef, all: readonly SeenContainer[]): SeenContainer | undefined {
  return id === undefined ? all.at(-1) : all.find((one) => one.id === id)
}

function signalOf({ politeSignal }: ContainerRunRef, step: LadderStep): NodeJS.Signals {
  if (step === 'kill') return 'SIGKILL'
  return step === 'polite' ? (politeSignal ?? 'SIGTERM') : 'SIGTERM'
}

/** The daemon refuses the start when the program is not in the image, or cannot be executed there. */
function refusalOf({ program }: ContainerRunRef, error: unknown): unknown {
  const status = statusOf(error)
  if (status === undefined || status >= 500) return error
  return new EbbError('launch_refused', `${program} could not be started in its container; ${sentence(error)}`, { cause: error })
}
