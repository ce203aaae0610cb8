import type { Launched } from '../../agents/agents.ts'
import { LogWatch } from '../../agents/stream/log-watch.ts'
import { type OutputPlace, rawOutput } from '../../agents/stream/raw-output.ts'
import type { Control } from '../../control.ts'
import { noop } from '../../core/engine/race.ts'
import { endingOf } from '../../core/model/agent.ts'
import { EbbError, isEbbError, notReleased, sentence } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import { logKind } from '../../core/ports/agent-log.ts'
import { isOfKind } from '../../core/ports/kind.ts'
import { processTreeKind } from '../../core/ports/process.ts'
import type { RunnerOrder } from '../../core/ports/runner.ts'
import { EarlierAgents, nameOf, type RunnerStatusNow, runnerNamespace } from './earlier.ts'

/**
 * Runs the agents of other control planes. They are ordinary agents in a namespace of their own. No caller deletes them, so the
 * runner removes them when they have ended.
 */

export interface RunnerTimes {
  /** How long an ended agent is remembered. */
  readonly rememberMs: number
  /** How long an id is refused after a stop that found no agent of this id: the launch of the agent may still be on its way. */
  readonly refuseMs: number
  readonly sweepMs: number
}

const usualTimes: RunnerTimes = { rememberMs: 60_000, refuseMs: 600_000, sweepMs: 5_000 }

/** The most refused ids that are kept, which bounds the memory. */
const mostRefused = 10_000

/** How an agent ended, for its stream. */
export type Outcome = { readonly isSuccess: true } | { readonly isSuccess: false; readonly message: string }

interface Entry {
  readonly launching: Promise<Launched>
  readonly outcome: PromiseWithResolvers<Outcome>
  /** True while the agent's end is not delivered to its stream. Until then the agent is not forgotten. */
  isStreamed: boolean
  /** The message of the agent's last error. */
  problem?: string
  ended?: RunnerStatusNow & { readonly atMs: number }
}

export interface RunnerAgent {
  readonly id: string
  readonly pid: number | undefined
  readonly outcome: Promise<Outcome>
  /** The standard output of the agent, byte for byte, until its end is proven. */
  output(signal: AbortSignal): AsyncIterable<Uint8Array>
}

export class RunnerHost {
  readonly #control: Control
  readonly #times: RunnerTimes
  readonly #watch: LogWatch
  readonly #agents = new Map<string, Entry>()
  /** The refused ids, each with the time until which it is refused. */
  readonly #refused = new Map<string, number>()
  readonly #earlier: EarlierAgents
  readonly #lifetime = new AbortController()
  #isTidying = false

  constructor(control: Control, times: Partial<RunnerTimes> = {}) {
    this.#control = control
    this.#times = { ...usualTimes, ...times }
    this.#earlier = new EarlierAgents(control, this.#times.rememberMs)
    const { clock } = control
    this.#watch = new LogWatch(clock)
    control.events.on('error', ({ agentId, error }) => {
      const entry = this.#agents.get(agentId)
      if (entry) entry.problem = error.message
    })
    control.events.on('terminated', ({ agentId }) => this.#ended(agentId))
    control.events.on('deleted', ({ agentId }) => this.#ended(agentId))
    clock.every(this.#times.sweepMs, this.#lifetime.signal, () => this.#sweep())
    this.#tidy()
  }

  get installation(): string {
    return this.#control.host.installation
  }

  /** Counts running agents, including those of an earlier run that are not proven gone. */
  async activeAgents(): Promise<number> {
    const here = [...this.#agents.values()].filter(({ ended }) => !ended).length
    // When the database is locked, only the agents of this run are counted.
    return here + (await this.#earlier.countActive(this.#known()).catch(() => 0))
  }

  #known(): ReadonlySet<string> {
    return new Set(this.#agents.keys())
  }

  /** Launches an agent. Resolves when the agent runs. An id that is already known is refused. */
  async launch(order: Omit<RunnerOrder, 'agentId'> & { readonly agentId?: string }, isStreamed: boolean): Promise<RunnerAgent> {
    const { store, newId } = this.#control
    const id = order.agentId ?? newId()
    if (this.#agents.has(id) || this.#refused.has(id) || this.#earlier.hasEnded(id)) throw exists(id)
    const launching = (async () => {
      if (order.agentId !== undefined && (await store.find(id))) throw exists(id)
      const { type, prompt, configuration } = order
      return await this.#control.launch({ id, type, prompt, configuration, namespace: runnerNamespace, name: nameOf(id) })
    })()
    const outcome = Promise.withResolvers<Outcome>()
    // The agent is entered before its launch has settled, so that calls for this id wait for the launch.
    this.#agents.set(id, { launching, outcome, isStreamed })
    const launched = await launching.catch((error: unknown) => {
      this.#agents.delete(id)
      throw error
    })
    try {
      const { run } = launched
      // Swallowed: `#closed` fails only when the launch has failed, and this launch has succeeded.
      void run.firstClose.promise.then((report) => this.#closed(id, report)).catch(noop)
      const place = await this.#outputOf(id)
      const complete = run.firstClose.promise
      return {
        id,
        pid: run.pid,
        outcome: outcome.promise,
        output: (signal) => (place ? rawOutput({ place, watch: this.#watch, complete, signal }) : nothing(complete)),
      }
    } catch (error) {
      // The agent runs, but its output cannot be found. The caller gets an error and no id, so the agent is removed.
      await this.remove(id)
      throw error
    }
  }

  async #outputOf(id: string): Promise<OutputPlace | undefined> {
    const resources = await this.#control.engine.resources(id)
    const log = resources.filter((resource) => isOfKind(logKind, resource)).find(({ spec }) => spec.stream === 'stdout')
    return log && { path: log.name, archive: log.spec.archive }
  }

  /** Stops an agent. Resolves once the processes of the agent are proven gone. */
  async stop(id: string, force: boolean): Promise<void> {
    const entry = this.#agents.get(id)
    // A failed launch may have left resources, which are in the ledger.
    if (!entry || !(await entry.launching.then(Boolean, noop))) return await this.#stopEarlier(id, force)
    if (entry.ended) return
    const report = await this.#control.agents.stop(id, force ? { force } : {}).catch((error: unknown) => {
      // The agent ended by itself, and its row was removed during the call.
      if (entry.ended && isEbbError(error, 'agent_not_found')) return undefined
      throw error
    })
    // Only the processes must be gone, because the runner protocol is about processes. Another resource that cannot be released,
    // such as a log that cannot be archived, stays in the ledger.
    if (report && !report.success && !this.#isGone(id)) throw notReleased(report, `agent ${id}`)
  }

  async #stopEarlier(id: string, force: boolean): Promise<void> {
    if (await this.#earlier.stop(id, force)) return
    this.#refuse(id)
    throw notFound(id)
  }

  /**
   * Whether the agent's processes are proven gone, although its scope may still be closing. A scan that finds no processes proves
   * nothing: the processes may have removed their environment tag.
   */
  #isGone(id: string): boolean {
    const entries = [...(this.#control.engine.inspect(id)?.resources.values() ?? [])]
    const trees = entries.filter(({ intent }) => intent.kind === processTreeKind)
    return trees.length > 0 && trees.every(({ state }) => state === 'released')
  }

  #refuse(id: string): void {
    this.#refused.set(id, this.#control.clock.now() + this.#times.refuseMs)
    const [oldest] = this.#refused.keys()
    if (oldest !== undefined && this.#refused.size > mostRefused) this.#refused.delete(oldest)
  }

  /** An agent counts as alive until it is proven gone. */
  async status(id: string): Promise<RunnerStatusNow> {
    const entry = this.#agents.get(id)
    const launched = await entry?.launching.catch(noop)
    if (!entry || !launched) {
      const earlier = await this.#earlier.find(id)
      if (earlier) return earlier
      throw notFound(id)
    }
    if (entry.ended) return entry.ended
    const { run } = launched
    return {
      isAlive: !this.#isGone(id),
      exitCode: run.exit?.code ?? null,
      signal: run.exit?.signal ?? null,
      uptimeMs: this.#control.clock.now() - run.startedMs,
    }
  }

  /** Deletes an agent whose stream is complete, or whose client hung up. A deletion that fails is tried again. */
  async remove(id: string): Promise<void> {
    const entry = this.#agents.get(id)
    if (entry) entry.isStreamed = false
    try {
      await this.#control.agents.remove(id, {})
    } catch (error) {
      if (isEbbError(error, 'agent_not_found')) return
      this.#control.log.warn('An agent of the runner could not be removed; it is tried again.', {
        scope: id,
        error: sentence(error),
      })
    }
  }

  close(): void {
    this.#lifetime.abort()
    this.#watch[Symbol.dispose]()
  }

  async #closed(id: string, report: Report): Promise<void> {
    const entry = this.#agents.get(id)
    if (!entry) return
    if (report.success) this.#ended(id)
    else if (this.#isGone(id)) {
      const { status, error } = endingOf(await (await entry.launching).run.lastDays())
      entry.outcome.resolve(outcomeOf(status, error?.message))
    } else entry.outcome.resolve({ isSuccess: false, message: `The agent could not be proven gone: ${report.errors.join('; ')}` })
  }

  #ended(id: string): void {
    const entry = this.#agents.get(id)
    if (!entry || entry.ended) return
    void entry.launching.then(({ run }) => {
      const { clock } = this.#control
      const { exit, status } = run
      const uptimeMs = clock.now() - run.startedMs
      entry.ended ??= { isAlive: false, exitCode: exit?.code ?? null, signal: exit?.signal ?? null, uptimeMs, atMs: clock.now() }
      entry.outcome.resolve(outcomeOf(status, entry.problem))
    }, noop)
  }

  /** Forgets refused ids and ended agents whose time is over. */
  #sweep(): void {
    const nowMs = this.#control.clock.now()
    for (const [id, untilMs] of this.#refused) if (untilMs < nowMs) this.#refused.delete(id)
    for (const [id, { ended, isStreamed }] of this.#agents)
      if (ended && !isStreamed && nowMs - ended.atMs > this.#times.rememberMs) this.#agents.delete(id)
    this.#earlier.forget(nowMs)
    this.#tidy()
  }

  /** Removes the rows of ended agents that are not known here: those of an earlier run, or those that could not be removed before. */
  #tidy(): void {
    if (this.#isTidying) return
    this.#isTidying = true
    this.#earlier
      .removeRows(this.#known())
      .catch(noop) // The database may be locked; the next sweep tries again.
      .finally(() => {
        this.#isTidying = false
      })
  }
}

/** The output of a synthetic agent, which has no log: nothing, until its end. */
async function* nothing(complete: Promise<unknown>): AsyncGenerator<Uint8Array> {
  await complete
  yield* []
}

function outcomeOf(status: string, problem: string | undefined): Outcome {
  return status === 'completed' ? { isSuccess: true } : { isSuccess: false, message: problem ?? sentenceOf(status) }
}

function sentenceOf(status: string): string {
  return status === 'terminated' ? 'The agent was stopped.' : `The agent is ${status}.`
}

function exists(id: string): EbbError {
  return new EbbError('agent_exists', `An agent ${id} exists or existed; use another agent_id.`)
}

function notFound(id: string): EbbError {
  return new EbbError(
    'agent_not_found',
    `There is no agent ${id.slice(0, 200)} at this runner; it ended more than a minute ago or never existed.`,
  )
}
