import { EbbError, sentence } from '../../core/model/errors.ts'
import { type Mark, scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Intent, type Presence, type Proof, present } from '../../core/model/resource.ts'
import type { Clock } from '../../core/ports/clock.ts'
import {
  type ContainerHandle,
  type ContainerRunLive,
  type ContainerRunSpec,
  containerLabel,
  containerLabels,
  type DaemonMark,
  type Docker,
  type DockerQueries,
  type Handing,
  type InspectedContainer,
  type SeenContainer,
} from '../../core/ports/docker.ts'
import type { Effects, Exit } from '../../core/ports/effects.ts'
import type { CreateCtx, Created, Ctx, Found, ResourceKind, StepEffect } from '../../core/ports/kind.ts'
import type { TreeHandle } from '../../core/ports/process.ts'
import { statusOf } from './daemon.ts'
import { ExitWatch, exitOf, unseen, type Watched } from './exit-watch.ts'
import { type Followers, isRunning } from './follower.ts'
import { patienceMs } from './kind.ts'
import { requireSame } from './same-daemon.ts'
import { isDeaf, isOfContainer } from './signal-handlers.ts'
import { inTime, isDoneIn } from './waits.ts'

/** What runs in a container. All of it ends with its main process: the kernel ends a pid namespace with its first (pid_namespaces(7)). */

export const containerRun = 'container-run'

export interface ContainerRunRef extends ContainerRunSpec {
  readonly mark: Mark
  /** Recorded before its start: the daemon, and its id of the container. */
  readonly id?: string
  readonly daemon?: DaemonMark
  /** Of its main process, where that is on this host. */
  readonly pid?: number
  /** Part of its input is in the memory of its supervisor, and lost with that. */
  readonly isBeingTold?: boolean
}

type RunDetail = Pick<ContainerRunRef, 'id' | 'daemon' | 'pid' | 'isBeingTold'>

export interface ContainerRunDeps {
  readonly docker: Docker
  readonly effects: Effects
  readonly looks: DockerQueries
  readonly clock: Clock
  readonly followers: Followers
  /** Scopes whose container ended while the daemon did not answer; the report of the container tells (kind.ts). */
  readonly unheard: Set<string>
}

/** The daemon says within milliseconds that it has taken note. */
const listeningMs = 10_000
/** What is handed over is in the daemon's hands within a millisecond, unless nobody reads and it is more than pipes hold. */
const handingMs = 1_000
/**
 * Thirty ends at once take the daemon a second. Who is still there at a later kill may be frozen behind its back (cgroup v1): then a
 * signal of ours waits for ever, and the daemon's is followed by a thaw.
 */
const hereMs = 2_000

/** What these run is processes of this host; what others run, such as those with a kernel of their own, is theirs to end. */
const hostRuntimes = /^(runc|crun|io\.containerd\.runc\.v\d+)$/

export class ContainerRunKind implements ResourceKind<ContainerRunSpec, ContainerRunRef> {
  readonly kind = containerRun
  readonly outlivesPower = true
  readonly isRemote = true
  /** To listen for its end, to attach and to start it, each with its own deadline (docker.ts), to hand over its input, and to look. */
  readonly createBudgetMs = 70_000
  readonly #deps: ContainerRunDeps
  readonly #watches = new Map<string, ExitWatch>()
  /** When a container was first killed without the daemon. */
  readonly #killedMs = new Map<string, number>()

  constructor(deps: ContainerRunDeps) {
    this.#deps = deps
  }

  name(intent: Intent<ContainerRunSpec>): ContainerRunRef {
    const mark = { installation: intent.spec.installation, incarnation: intent.incarnation, resourceId: intent.id }
    return { ...intent.spec, mark, ...(intent.detail as RunDetail | undefined) }
  }

  /** As it is called before it exists. */
  describe({ program, mark }: ContainerRunRef): string {
    return `${program} in the container of ${scopeOfResource(mark.resourceId)}`
  }

  /** Without those that it cannot hear: to try them would only cost time, the daemon's and that of all who wait. */
  steps(ref: ContainerRunRef): readonly LadderStep[] {
    const known = ref.politeSignal ? (['polite', 'terminate'] as const) : (['terminate'] as const)
    const canHear = (step: LadderStep): boolean =>
      ref.id === undefined || ref.pid === undefined || !isDeaf(ref.pid, ref.id, signalOf(ref, step))
    return [...known.filter(canHear), 'kill']
  }

  async create(ref: ContainerRunRef, _spec: ContainerRunSpec, ctx: CreateCtx): Promise<Created> {
    const { docker, looks, followers } = this.#deps
    const { id, paths, mostBytes, daemon } = ctx.handle(containerLabel) as ContainerHandle
    const watch = this.#watch(ref, { id, daemon, isFresh: true })
    const told: RunDetail = { id, ...(daemon && { daemon }) }
    await Promise.all([ctx.record({ ...told, isBeingTold: true } satisfies RunDetail), inTime(ctx.clock, listeningMs, watch.heard)])
    let handing: Handing
    try {
      handing = await docker.start(id, (ctx.live as ContainerRunLive).input, ctx.signal)
    } catch (error) {
      throw refusalOf(ref, error)
    }
    if (paths) followers.start(scopeOfResource(ref.mark.resourceId), { id, paths, mostBytes })
    // That it runs is known without it.
    const seen = looks.isLocal ? looks.inspect(id).catch(() => undefined) : undefined
    const isTold = await isDoneIn(ctx.clock, handingMs, handing.done)
    const pid = (await seen)?.pid
    const known: RunDetail = { ...told, ...(pid !== undefined && { pid }) }
    if (!isTold) void handing.done.then(() => ctx.record(known)).catch(() => {})
    const handle: TreeHandle = { exit: watch.exit, ...(pid !== undefined && { pid }) }
    return { detail: isTold ? known : ({ ...known, isBeingTold: true } satisfies RunDetail), handle }
  }

  async resume(ref: ContainerRunRef): Promise<TreeHandle> {
    if (ref.isBeingTold) throw new Error('its supervisor was lost before all of its input was handed over')
    return {
      exit: ref.id === undefined ? Promise.resolve(unseen) : this.#watch(ref, { id: ref.id, daemon: ref.daemon, isFresh: false }).exit,
    }
  }

  #watch(ref: ContainerRunRef, watched: Omit<Watched, 'onUnheard'>): ExitWatch {
    const onUnheard = (): void => void this.#deps.unheard.add(scopeOfResource(ref.mark.resourceId))
    const watch = new ExitWatch(this.#deps, { ...watched, onUnheard })
    this.#watches.set(ref.mark.resourceId, watch)
    return watch
  }

  /** A daemon that does not answer says nothing about the end of anything (G4). */
  async ended(ref: ContainerRunRef): Promise<Exit | undefined> {
    // It would work on half of what it was to be told.
    if (ref.isBeingTold) return unseen
    try {
      const own = ownOf(ref, await this.#all(ref))
      if (!own) await requireSame(this.#deps.looks, ref.daemon)
      const seen = own && (await this.#deps.looks.inspect(own.id))
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
    if (!own) await requireSame(this.#deps.looks, ref.daemon, ctx.signal)
    for (const { id } of all) this.#killedMs.delete(id)
    await this.#tell(ref, own, ctx)
    const method = own ? `the container is ${own.state}, not running` : 'no such container'
    return absent({ method, strength: 'api', at: ctx.clock.wall() })
  }

  /** The daemon may have been away when it ended: whoever waits for its exit hears of it now. */
  async #tell({ mark }: ContainerRunRef, seen: SeenContainer | undefined, { signal }: Ctx): Promise<void> {
    const watch = this.#watches.get(mark.resourceId)
    if (!watch) return
    this.#watches.delete(mark.resourceId)
    if (watch.isSettled) return
    const inspected = seen && (await this.#deps.looks.inspect(seen.id, signal).catch(() => undefined))
    watch.settle(exitOf(inspected))
  }

  /** By the labels of its container, of which an agent has one; others with the same labels are ended with it (kind.ts). */
  async #all({ mark }: ContainerRunRef, signal?: AbortSignal): Promise<readonly SeenContainer[]> {
    const labels = { [containerLabels.installation]: mark.installation, [containerLabels.scope]: scopeOfResource(mark.resourceId) }
    return await this.#deps.looks.list(labels, signal)
  }

  async #running(ref: ContainerRunRef, signal: AbortSignal): Promise<readonly string[]> {
    return (await this.#all(ref, signal)).filter(({ state }) => isRunning(state)).map(({ id }) => id)
  }

  patienceMs(): number {
    return patienceMs
  }

  async release(ref: ContainerRunRef, step: LadderStep, ctx: Ctx): Promise<StepEffect> {
    const running = await this.#running(ref, ctx.signal)
    const heard = await Promise.all(running.map((id) => this.#end(id, signalOf(ref, step), ctx)))
    if (heard.every(Boolean)) return {}
    // Those that are deaf are not waited for.
    const leaving = running.filter((_, index) => heard[index]).map((id) => this.#deps.looks.stopped(id, ctx.signal))
    return { exhausted: Promise.allSettled(leaving).then(() => {}) }
  }

  /** False when its main process has no ear for the signal. */
  async #end(id: string, signal: NodeJS.Signals, ctx: Ctx): Promise<boolean> {
    const { docker, looks } = this.#deps
    const seen = await looks.inspect(id, ctx.signal)
    if (!seen || !isRunning(seen.state)) return true
    // Somebody may have told the daemon to start it again whenever it ends.
    if (seen.restartPolicy !== 'no' && seen.restartPolicy !== '') await docker.forbidRestart(seen.id)
    // One of which nobody had told us the pid.
    if (signal !== 'SIGKILL' && looks.isLocal && seen.pid !== undefined && isDeaf(seen.pid, seen.id, signal)) return false
    if (signal === 'SIGKILL' && this.#isKilledHere(seen)) return true
    await docker.signal(seen.id, signal)
    // A signal waits for who is frozen; in this order it is the first thing that one meets.
    if (seen.state === 'paused') await docker.unpause(seen.id)
    return true
  }

  /**
   * Without the daemon, which starts a program for each kill (`runc kill`): of thirty stops at once that is a third of the time. Any
   * process of the container will do, as all of them are to end; that they have is still the daemon's to say.
   */
  #isKilledHere({ id, pid, state, runtime }: InspectedContainer): boolean {
    const { looks, clock, effects } = this.#deps
    const isHere = looks.isLocal && pid !== undefined && state === 'running' && hostRuntimes.test(runtime)
    if (!isHere || !isOfContainer(pid, id)) return false
    const firstMs = this.#killedMs.get(id) ?? clock.now()
    this.#killedMs.set(id, firstMs)
    if (clock.now() - firstMs > hereMs) return false
    try {
      effects.signal(pid, 'SIGKILL')
      return true
    } catch {
      // Not ours to kill, or gone: the daemon will know.
      return false
    }
  }

  async gone(ref: ContainerRunRef, ctx: Ctx): Promise<Proof> {
    // After the daemon's own kill it is: that one answers when it has seen the end.
    const first = await this.observe(ref, ctx)
    if (first.is === 'absent') return first.proof
    await Promise.all((await this.#running(ref, ctx.signal)).map((id) => this.#deps.looks.stopped(id, ctx.signal)))
    const seen = await this.observe(ref, ctx)
    if (seen.is !== 'absent') throw new Error(`${ref.program} was started again`)
    return seen.proof
  }

  /** Whatever carries our labels is found as a container. */
  async *list(): AsyncIterable<Found> {}
}

/** The one that we started; where its id is on no books, the first with our labels: the newest is listed first. */
function ownOf({ id }: ContainerRunRef, all: readonly SeenContainer[]): SeenContainer | undefined {
  return id === undefined ? all.at(-1) : all.find((one) => one.id === id)
}

function signalOf({ politeSignal }: ContainerRunRef, step: LadderStep): NodeJS.Signals {
  if (step === 'kill') return 'SIGKILL'
  return step === 'polite' ? (politeSignal ?? 'SIGTERM') : 'SIGTERM'
}

/** The daemon says so when the program is not in the image, or cannot be executed there. */
function refusalOf({ program }: ContainerRunRef, error: unknown): unknown {
  const status = statusOf(error)
  if (status === undefined || status >= 500) return error
  return new EbbError('launch_refused', `${program} could not be started in its container; ${sentence(error)}`, { cause: error })
}
