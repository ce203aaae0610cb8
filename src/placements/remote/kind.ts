import { EbbError, sentence } from '../../core/model/errors.ts'
import { scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Presence, type Proof, present, unknown } from '../../core/model/resource.ts'
import { logLabels } from '../../core/ports/agent-log.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { CreateCtx, Created, Ctx, IntentOf, ResourceKind, StepEffect } from '../../core/ports/kind.ts'
import type { Log } from '../../core/ports/log.ts'
import { Follower } from './follower.ts'
import {
  type AddressHandle,
  type RemoteAgentDetail,
  type RemoteAgentSpec,
  type Runner,
  type RunnerCall,
  RunnerDenied,
  type RunnerHealth,
  type RunnerQueries,
  type RunnerStatus,
  remoteAgentKind,
} from './ports.ts'

/**
 * An agent at a runner host. The five calls of the runner protocol start, stream, stop and observe it. Only an answer of the runner says
 * what exists; without an answer the state is unknown (G4).
 */

export interface RemoteAgentRef {
  readonly resourceId: string
  readonly spec: RemoteAgentSpec
  readonly detail: RemoteAgentDetail | undefined
  /** The agent's id at the runner, or the id that the runner was given in the launch (G1). */
  readonly agentId: string
}

/**
 * The place where a runner runs, such as an ECS task, when Ebb started that place. The end of the place is the end of the agent. Ending the
 * place is the only way to end the agent when the runner does not answer.
 */
export interface RunnersPlace {
  /** How long the place of the runner takes to end. */
  readonly patienceMs: number
  observe(ref: RemoteAgentRef, ctx: Ctx): Promise<Presence>
  end(ref: RemoteAgentRef, ctx: Ctx): Promise<void>
}

export interface RemoteAgentDeps {
  readonly effects: Pick<Effects, 'append'>
  readonly clock: Clock
  readonly log: Log
  readonly runner: Runner
  readonly queries: RunnerQueries
  /** The limit of the output in bytes, unless the launch sets one. */
  readonly limitBytes: number
  /** The token is a setting and never in the ledger. */
  readonly tokenFor: (spec: RemoteAgentSpec) => string | undefined
  /** Returns the place of the runner, for agents whose runner was started for them. */
  readonly placeOf?: (spec: RemoteAgentSpec) => RunnersPlace | undefined
}

/** The time for a launch. A runner may queue launches, and the health check before the launch and the ledger take time as well. */
const createBudgetMs = 60_000

/** The time from the start of the container until the runner answers, on the smallest Fargate task. */
const startPatienceMs = 45_000

/**
 * The maximum number of remembered stopped launches, which bounds the memory. A failed launch is observed only for a while after its end.
 */
const mostRefused = 1_000

/** The timeout of a query that must be quick. A runner in the same network answers within milliseconds. */
const soonMs = 250

/** After this time without an answer, an agent is ended by ending the place of its runner. Pauses of a host or a network are shorter. */
const silentMs = 3_000

const noLongerNeeded = 'no longer needed'

/** The longest delay between two observations of an agent without a follower. */
const longestPauseMs = 500

export class RemoteAgentKind implements ResourceKind<typeof remoteAgentKind, RemoteAgentRef> {
  readonly kind = remoteAgentKind
  readonly runsAgent = true
  readonly outlivesPower = true
  readonly isRemote = true
  readonly createBudgetMs = createBudgetMs
  readonly #deps: RemoteAgentDeps
  readonly #followers = new Map<string, Follower>()
  /** Resources whose stop the runner has confirmed before it confirmed their launch: it refuses a launch that arrives later. */
  readonly #refused = new Set<string>()
  /** The time since which a runner has not answered, by the resource id of its agent. Counted while the agent is being ended. */
  readonly #silentSince = new Map<string, number>()

  constructor(deps: RemoteAgentDeps) {
    this.#deps = deps
  }

  name({ id, spec, detail }: IntentOf<typeof remoteAgentKind>): RemoteAgentRef {
    return { resourceId: id, spec, detail, agentId: detail?.agentId ?? scopeOfResource(id) }
  }

  describe({ agentId, detail, spec }: RemoteAgentRef): string {
    const where = detail?.url ?? ('url' in spec ? spec.url : `port ${spec.port} of its task`)
    return `${agentId} at ${where}`
  }

  steps(): readonly LadderStep[] {
    return ['terminate', 'kill']
  }

  async create(
    ref: RemoteAgentRef,
    spec: RemoteAgentSpec,
    ctx: CreateCtx<typeof remoteAgentKind>,
  ): Promise<Created<typeof remoteAgentKind>> {
    const { runner, tokenFor, effects, clock, log, limitBytes } = this.#deps
    const { order, runner: label } = ctx.live
    const from = label && ctx.handles.find(label)
    const url = urlOf(spec, from)
    const call = { place: { url }, token: tokenFor(spec) }
    const { installation } = await this.#untilAnswering({ ...call, signal: ctx.signal }, spec)
    const detail: RemoteAgentDetail = {
      url,
      ...(from?.arn !== undefined && { taskArn: from.arn }),
      ...(installation !== undefined && { runner: installation }),
    }
    await ctx.record(detail)
    const stream = await runner.stream({ ...call, signal: ctx.signal }, order)
    // The follower is registered before anything else can fail, so that the release of a failed launch finds it.
    const follower = new Follower({
      effects,
      clock,
      log,
      stream,
      path: ctx.handles.get(logLabels[0]).path,
      mostBytes: order.configuration.limits?.logBytes ?? limitBytes,
      status: (signal) => this.#statusOrEnd({ ...call, signal }, { ...ref, agentId: stream.agentId, detail }),
      stop: (signal) => runner.stop({ ...call, signal }, stream.agentId, false),
    })
    this.#followers.set(ref.resourceId, follower)
    const known: RemoteAgentDetail = { ...detail, agentId: stream.agentId }
    await ctx.record(known)
    return { detail: known, handle: { exit: follower.exit } }
  }

  /** Waits until the runner answers. A runner that was started for this agent has an address before it listens there. */
  async #untilAnswering(call: RunnerCall, spec: RemoteAgentSpec): Promise<RunnerHealth> {
    const { clock, queries, placeOf } = this.#deps
    const untilMs = clock.now() + (placeOf?.(spec) ? startPatienceMs : 0)
    for (let attempt = 1; ; attempt++) {
      try {
        return await queries.health(call)
      } catch (error) {
        if (call.signal.aborted || clock.now() >= untilMs || error instanceof RunnerDenied) throw withTokenHint(error, spec)
        await pause({ clock, signal: call.signal }, Math.min(longestPauseMs, 2 ** Math.min(attempt, 20) * 2))
      }
    }
  }

  /** The time that the place of the runner takes to end. */
  patienceMs({ spec }: RemoteAgentRef): number {
    return this.#deps.placeOf?.(spec)?.patienceMs ?? 0
  }

  /** Observing never closes the stream: that would end the agent, and the runner's answer may be wrong. */
  async observe(ref: RemoteAgentRef, ctx: Ctx): Promise<Presence> {
    return await this.#presence(ref, ctx, async (follower) => follower.isOver)
  }

  async #presence(ref: RemoteAgentRef, ctx: Ctx, hasAll: (follower: Follower) => Promise<boolean>): Promise<Presence> {
    const { detail } = ref
    const at = ctx.clock.wall()
    // The ledger's record is written before the first call, so without a record no call was made.
    if (!detail) return absent({ method: 'no call to a runner was made', strength: 'api', at })
    const place = this.#deps.placeOf?.(ref.spec)
    let status: RunnerStatus
    try {
      status = await (place ? this.#statusSoon(ref, ctx) : this.#status(this.#call(ref, ctx.signal), ref))
    } catch (error) {
      if (place) return await this.#presenceOfPlace(ref, place, ctx)
      return unknown(`${sentence(error)} The agent stays in the ledger until a runner answers there.`)
    }
    if (status.is === 'known' && status.isAlive) return present(`the runner at ${detail.url} says that it is alive`)
    // The runner may not have read the launch yet. Once the runner was called to stop that id, it refuses a launch with it.
    if (status.is === 'not-found' && detail.agentId === undefined && !this.#refused.has(ref.resourceId))
      return present('its launch may still be on its way to the runner')
    const follower = this.#followers.get(ref.resourceId)
    if (follower && !(await hasAll(follower))) return present('its last output is still arriving')
    this.#forget(ref)
    return absent({ method: methodOf(detail, status, follower?.note), strength: 'api', at })
  }

  /** The runner does not answer, so its place is observed instead. */
  async #presenceOfPlace(ref: RemoteAgentRef, place: RunnersPlace, ctx: Ctx): Promise<Presence> {
    const seen = await place.observe(ref, ctx)
    if (seen.is !== 'absent') return seen
    const follower = this.#followers.get(ref.resourceId)
    follower?.dismiss()
    this.#forget(ref)
    // When the follower had finished, the output is complete.
    return follower?.isOver === true ? seen : absent({ ...seen.proof, method: `${seen.proof.method}; its last lines may be missing` })
  }

  async release(ref: RemoteAgentRef, step: LadderStep, ctx: Ctx): Promise<StepEffect> {
    if (!ref.detail) return {}
    const place = step === 'kill' ? this.#deps.placeOf?.(ref.spec) : undefined
    if (place && !(await this.#isAnswering(ref, ctx))) await this.#endSilent(ref, place, ctx)
    else await this.#deps.runner.stop(this.#call(ref, ctx.signal), ref.agentId, step === 'kill')
    if (ref.detail.agentId === undefined) this.#refuse(ref.resourceId)
    return {}
  }

  /**
   * Ends an agent whose runner does not answer, by ending the place of the runner. A single unanswered call is not enough for that: the
   * runner must stay silent for `silentMs`.
   */
  async #endSilent(ref: RemoteAgentRef, place: RunnersPlace, ctx: Ctx): Promise<void> {
    const sinceMs = this.#silentSince.get(ref.resourceId) ?? ctx.clock.now()
    this.#silentSince.set(ref.resourceId, sinceMs)
    if (ctx.clock.now() - sinceMs < silentMs)
      throw new Error(`The runner at ${ref.detail?.url} does not answer; its task is stopped when it stays silent.`)
    await place.end(ref, ctx)
  }

  #refuse(resourceId: string): void {
    this.#refused.add(resourceId)
    const [oldest] = this.#refused
    if (oldest !== undefined && this.#refused.size > mostRefused) this.#refused.delete(oldest)
  }

  async gone(ref: RemoteAgentRef, ctx: Ctx): Promise<Proof> {
    for (let attempt = 1; ; attempt++) {
      // The end of the agent was requested, so the connection of a silent stream may be closed.
      const seen = await this.#presence(ref, ctx, (follower) => follower.finishes(ctx.signal))
      if (seen.is === 'absent') return seen.proof
      ctx.signal.throwIfAborted()
      const follower = this.#followers.get(ref.resourceId)
      await pause(ctx, Math.min(longestPauseMs, 2 ** Math.min(attempt, 20) * 2), follower?.isOver ? undefined : follower?.over)
    }
  }

  /** Lists nothing: a runner cannot list the agents of one client. After a crash the agents end with their connection. */
  async *list(): AsyncIterable<never> {}

  /** The status of the agent at its runner. When the runner does not answer because its place has ended, the agent does not exist. */
  async #statusOrEnd(call: RunnerCall, ref: RemoteAgentRef): Promise<RunnerStatus> {
    const { clock, placeOf } = this.#deps
    try {
      return await this.#status(call, ref)
    } catch (error) {
      const seen = await placeOf?.(ref.spec)?.observe(ref, { signal: call.signal, clock })
      if (seen?.is === 'absent') return { is: 'not-found' }
      throw error
    }
  }

  /**
   * Whether the runner answers. The previous step of the stop has called the runner to stop the agent, so the place of a runner that does
   * not answer may be ended.
   */
  async #isAnswering(ref: RemoteAgentRef, ctx: Ctx): Promise<boolean> {
    try {
      await this.#statusSoon(ref, ctx)
      this.#silentSince.delete(ref.resourceId)
      return true
    } catch (error) {
      if (ctx.signal.aborted) throw error
      return false
    }
  }

  /** Queries the status with a short timeout: half of the time of the first kill, so that the other half is left for ending the place. */
  async #statusSoon(ref: RemoteAgentRef, ctx: Ctx): Promise<RunnerStatus> {
    const late = new AbortController()
    const timer = new AbortController()
    ctx.clock.after(soonMs, timer.signal, () => late.abort(noLongerNeeded))
    try {
      return await this.#status(this.#call(ref, AbortSignal.any([ctx.signal, late.signal])), ref)
    } finally {
      timer.abort(noLongerNeeded)
    }
  }

  /**
   * The status from the runner that has the agent. Throws when another runner answers at the same address, because it knows nothing about
   * the agent (G10).
   */
  async #status(call: RunnerCall, { agentId, detail }: RemoteAgentRef): Promise<RunnerStatus> {
    const status = await this.#deps.queries.status(call, agentId)
    if (detail?.runner !== undefined && status.installation !== detail.runner)
      throw new Error(
        `The runner at ${call.place.url} is another runner than the one that has the agent ${agentId}; ` +
          'start that one there again, or end its task or machine.',
      )
    return status
  }

  #call({ spec, detail }: RemoteAgentRef, signal: AbortSignal): RunnerCall {
    return { place: { url: detail?.url ?? '' }, token: this.#deps.tokenFor(spec), signal }
  }

  #forget({ resourceId }: RemoteAgentRef): void {
    // The follower may still be querying the exit. It keeps running after its entry was deleted.
    this.#followers.delete(resourceId)
    this.#silentSince.delete(resourceId)
  }
}

/** Adds to an error of denied access which setting holds the token, for a runner in an ECS task. */
function withTokenHint(error: unknown, spec: RemoteAgentSpec): unknown {
  if (!(error instanceof RunnerDenied) || !('task' in spec)) return error
  return new EbbError('launch_failed', `${error.message} ecs.token must be the EBB_TOKEN of the task definition.`, { cause: error })
}

function urlOf(spec: RemoteAgentSpec, from: AddressHandle | undefined): string {
  if ('url' in spec) return spec.url
  if (!from) throw new EbbError('launch_failed', 'The plan gives no address at which the runner answers.')
  const host = from.address.includes(':') ? `[${from.address}]` : from.address
  return `http://${host}:${spec.port}`
}

/**
 * How the end of the agent was proven. A runner that is not Ebb's does not know our id, so its "no such agent" proves little. In that case
 * the runner protocol says that a closed connection ends the agent (docs/in-depth/runner.md).
 */
function methodOf({ url, runner, agentId }: RemoteAgentDetail, status: RunnerStatus, note: string | undefined): string {
  const isWeak = status.is === 'not-found' && runner === undefined && agentId === undefined
  const says = status.is === 'known' ? 'its processes are gone' : 'it has no such agent'
  const method = isWeak
    ? `the connection is closed, which ends the agent by the runner protocol, and the runner at ${url} has no agent with our id`
    : `the runner at ${url} says that ${says}`
  return note === undefined ? method : `${method}; ${note}`
}

/** Waits for the given time. The event or an abort ends the wait early. */
async function pause({ clock, signal }: Ctx, ms: number, event?: Promise<void>): Promise<void> {
  const timer = new AbortController()
  await new Promise<void>((resolve) => {
    clock.after(ms, timer.signal, resolve)
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true, signal: timer.signal })
    void event?.then(resolve)
  })
  timer.abort(noLongerNeeded)
}
