import { noop, within } from '../core/engine/race.ts'
import type { Agent, AgentError, AgentResult, AgentStatus, Farewell, LastDays } from '../core/model/agent.ts'
import type { CloseRequest } from '../core/model/close-request.ts'
import type { Report } from '../core/model/report.ts'
import type { AgentChange, AgentEnd } from '../core/ports/agents.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Exit } from '../core/ports/effects.ts'
import type { EndedScope, UncleanScope } from '../core/ports/endings.ts'
import type { EndOfTree } from '../core/ports/process.ts'
import type { LivingAgent } from './endings.ts'

/**
 * How long to wait for the exit code after the agent's end is proven. Under a containment that cannot report exits, the code never
 * comes.
 */
const exitPatienceMs = 1_000

/** An agent that has reported its result must exit within this time, or it is ended. */
const resultPatienceMs = 10_000

/** An agent that has sent its task a last report (a farewell) must exit within this time. The answer to the report names the deadline. */
export const farewellMs = 30_000

export interface RunDeps {
  readonly clock: Clock
  readonly change: (change: AgentChange) => Promise<void>
  readonly onStatus: (status: AgentStatus) => void
  readonly onEnd: (end: AgentEnd | undefined, isForgotten: boolean) => void
  /** Closes the scope, because the agent ended by itself or broke a rule. */
  readonly close: (closeRequest: CloseRequest) => void
}

/** A running agent: what it did and what Ebb did to it, in order. The order decides its final status. */
export class Run implements LivingAgent {
  readonly id: string
  readonly namespace: string
  #startedMs: number
  #isAdopted = false
  /** Resolves with the report of the agent's first close, whether that succeeded or not. */
  readonly firstClose = Promise.withResolvers<Report>()
  readonly #deps: RunDeps
  readonly #lifetime = new AbortController()
  #status: AgentStatus = 'initializing'
  #cause: 'itself' | 'us' | undefined
  #violation: AgentError | undefined
  #exit: Exit | undefined
  /** True when the exit came after Ebb had begun to end the agent. Such an exit says nothing about the agent's own work. */
  #isExitOurs = false
  #exited: Promise<void> = Promise.resolve()
  #result: AgentResult | undefined
  #farewell: Farewell | undefined
  #leavesBy: string | undefined
  #lastSignOfLifeMs: number
  /** Events from before the `created` event; undefined once `created` was emitted. */
  #pendingEvents: (() => void)[] | undefined = []
  /** The pid of the agent's main process, if it has one. */
  pid: number | undefined
  /** The number of messages so far. The prompt is the first message. */
  messageCount = 1

  constructor(id: string, namespace: string, closing: AbortSignal, deps: RunDeps) {
    this.id = id
    this.namespace = namespace
    this.#deps = deps
    this.#startedMs = deps.clock.now()
    this.#lastSignOfLifeMs = this.#startedMs
    closing.addEventListener('abort', () => this.#closing(), { once: true })
  }

  get startedMs(): number {
    return this.#startedMs
  }

  get status(): AgentStatus {
    return this.#status
  }

  get exit(): Exit | undefined {
    return this.#exit
  }

  get signal(): AbortSignal {
    return this.#lifetime.signal
  }

  /** Emits an event once the agent's `created` event was emitted. Events of a launch that fails are dropped. */
  notify(emit: () => void): void {
    if (this.#pendingEvents) this.#pendingEvents.push(emit)
    else emit()
  }

  /** Emits the events that waited for the `created` event. Call it after `created` was emitted. */
  announced(): void {
    const pending = this.#pendingEvents ?? []
    this.#pendingEvents = undefined
    for (const emit of pending) emit()
  }

  async started(at: string): Promise<void> {
    if (this.#status !== 'initializing') return
    this.#status = 'running'
    await this.#deps.change({ status: 'running', startedAt: at })
  }

  /** Restores the state of an agent that ran under an earlier supervisor, whose clients have its `created` event already. */
  resumed({ session }: Agent, aliveMs: number): void {
    this.#isAdopted = true
    this.#startedMs -= aliveMs
    this.#status = 'running'
    this.messageCount = session.messageCount
    this.announced()
  }

  /** Sets a status that the schedule of a synthetic agent gives. */
  setStatus(status: 'initializing' | 'running'): void {
    if (this.#cause !== undefined || status === this.#status) return
    this.#status = status
    // Swallowed: the status in memory counts, and the row gets the final status with the end of the scope.
    this.#deps.change({ status }).catch(noop)
    this.#deps.onStatus(status)
  }

  watchExit(pid: number | undefined, exit: Promise<EndOfTree>): void {
    this.pid = pid
    this.#exited = exit.then(({ error, ...how }) => {
      // A failure that the agent reported itself is kept, because it has more detail than the error of its process.
      if (error && this.#result?.isSuccess !== false) this.#result = { isSuccess: false, error }
      // No exit code and no signal: the exit is unknown.
      const seen = how.code === null && how.signal === null ? undefined : how
      this.#exit = seen
      this.#isExitOurs = this.#cause !== undefined
      this.#endsItself({ ...(seen && { exit: seen }), ...(error && this.#result && { result: this.#result }) })
    })
  }

  /** Ends the agent when its terminal is lost: it would continue without one. */
  watchSession(lost: Promise<void>): void {
    lost.then(() =>
      this.violates({ name: 'session_lost', message: 'The terminal session of the agent was ended from outside, so the agent was ended.' }),
    )
  }

  watchTime(timeoutMs: number, idleMs: number): void {
    const { clock } = this.#deps
    clock.after(timeoutMs, this.signal, () =>
      this.violates({ name: 'timeout', message: `The agent ran longer than its timeout of ${timeoutMs} ms and was ended.` }),
    )
    const check = (): void => {
      const leftMs = this.#lastSignOfLifeMs + idleMs - clock.now()
      if (leftMs > 0) clock.after(leftMs, this.signal, check)
      else this.violates({ name: 'idle_timeout', message: `The agent wrote nothing for ${idleMs} ms and was ended.` })
    }
    clock.after(idleMs, this.signal, check)
  }

  /** Records that messages were saved; `messageCount` is their number so far. */
  savedMessages(messageCount: number): void {
    this.messageCount = messageCount
    this.wrote()
  }

  /** Records a sign of life: the agent wrote something, even if it is not a complete line. */
  wrote(): void {
    this.#lastSignOfLifeMs = this.#deps.clock.now()
  }

  /** Records the result that the agent's program reported. After its result, the program must exit within `resultPatienceMs`. */
  lastWord(result: AgentResult): void {
    this.#result = result
    this.#deps.clock.after(resultPatienceMs, this.signal, () => this.#endsItself({ result }))
  }

  /** Records the agent's last report to its task, and returns the deadline for its exit. Repeating the report does not move the deadline. */
  farewell({ status, message }: Farewell, patienceMs = farewellMs): string {
    const { clock, change } = this.#deps
    const isFirst = this.#leavesBy === undefined
    const by = this.#leavesBy ?? new Date(Date.parse(clock.wall()) + patienceMs).toISOString()
    this.#leavesBy = by
    this.#farewell = { status, message }
    // The farewell is stored in the row, for a recovery or an adoption. A failure is swallowed: the run itself has the farewell,
    // and a database that fails must not keep the agent from ending.
    const farewell = { status, message, by }
    const error = { name: 'agent_failed', message }
    change({ result: status === 'completed' ? { isSuccess: true, farewell } : { isSuccess: false, error, farewell } }).catch(noop)
    if (isFirst) clock.after(patienceMs, this.signal, () => this.#endsItself({}))
    return by
  }

  /** Ends an agent without a process: its result is its end. */
  endsWith(result: AgentResult): void {
    this.#result = result
    this.#endsItself({ result })
  }

  violates(rule: AgentError, graceMs?: number): void {
    if (this.#cause !== undefined) return
    this.#violation = rule
    this.#cause = 'us'
    this.#stopping({ error: rule })
    this.#deps.close({ trigger: 'terminated', ...(graceMs !== undefined && { graceMs }) })
  }

  #endsItself(change: AgentChange): void {
    if (this.#cause !== undefined) return
    this.#cause = 'itself'
    this.#stopping(change)
    this.#deps.close({ trigger: 'completed' })
  }

  /** Called when the scope begins to close. If the agent had not ended by itself before, Ebb ended it. */
  #closing(): void {
    if (this.#cause !== undefined) return
    this.#cause = 'us'
    this.#stopping({})
  }

  #stopping(change: AgentChange): void {
    this.#lifetime.abort()
    this.#status = 'stopping'
    // Swallowed: a database that fails must not delay the stop (G12), and the row gets the final status with the end of the scope.
    this.#deps.change({ ...change, status: 'stopping' }).catch(noop)
    this.#deps.onStatus('stopping')
  }

  async lastDays(): Promise<LastDays> {
    await within(this.#deps.clock, exitPatienceMs, this.#exited)
    return {
      wasStopped: this.#cause !== 'itself',
      ...(this.#violation && { violation: this.#violation }),
      ...(this.#result && { result: this.#result }),
      ...(this.#farewell && { farewell: this.#farewell }),
      ...(this.#exit && { exit: this.#exit }),
      ...(this.#isExitOurs && { isExitOurs: true }),
      ...(this.#isAdopted && { isOrphan: true }),
    }
  }

  settled({ isForgotten, report }: EndedScope, end: AgentEnd | undefined): void {
    this.#lifetime.abort()
    if (end) this.#status = end.status
    this.#deps.onEnd(end, isForgotten)
    this.firstClose.resolve(report)
  }

  notReleased({ report, isStuck }: UncleanScope): void {
    this.firstClose.resolve(report)
    if (!isStuck || this.#status === 'stuck') return
    this.#status = 'stuck'
    this.#deps.onStatus('stuck')
  }
}
