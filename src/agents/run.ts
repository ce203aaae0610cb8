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

/** Proven gone, so its exit is on its way to us; only under a containment that cannot tell does it never come. */
const exitPatienceMs = 1_000

/** An agent that has said its last word leaves by itself; if not, it is ended after this. */
const lastWordPatienceMs = 10_000

/** One that has told its task that it is through has more time, which it was promised. */
export const farewellMs = 30_000

export interface RunDeps {
  readonly clock: Clock
  readonly change: (change: AgentChange) => Promise<void>
  readonly onStatus: (status: AgentStatus) => void
  readonly onEnd: (end: AgentEnd | undefined, isForgotten: boolean) => void
  /** Closes the scope, because the agent ended by itself or broke a rule. */
  readonly close: (closeRequest: CloseRequest) => void
}

/** A living agent: what it did, what we did to it, and in which order. That order decides how it ended. */
export class Run implements LivingAgent {
  readonly id: string
  readonly namespace: string
  #startedMs: number
  #isAdopted = false
  /** Settles with the report of its first close, however that went. */
  readonly firstClose = Promise.withResolvers<Report>()
  readonly #deps: RunDeps
  readonly #lifetime = new AbortController()
  #status: AgentStatus = 'initializing'
  #cause: 'itself' | 'us' | undefined
  #violation: AgentError | undefined
  #exit: Exit | undefined
  /** It came after we had begun to end it: it says nothing of the agent's own work. */
  #isExitOurs = false
  #exited: Promise<void> = Promise.resolve()
  #result: AgentResult | undefined
  #farewell: Farewell | undefined
  #leavesBy: string | undefined
  #lastSignOfLifeMs: number
  /** What happened before its creation was told. */
  #untold: (() => void)[] | undefined = []
  /** Of its main process, where it has one. */
  pid: number | undefined
  /** The prompt is the first. */
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

  /** Nobody hears of an agent before they heard that there is one; of a launch that fails, nobody hears anything. */
  tell(say: () => void): void {
    if (this.#untold) this.#untold.push(say)
    else say()
  }

  announced(): void {
    const untold = this.#untold ?? []
    this.#untold = undefined
    for (const say of untold) say()
  }

  async started(at: string): Promise<void> {
    if (this.#status !== 'initializing') return
    this.#status = 'running'
    await this.#deps.change({ status: 'running', startedAt: at })
  }

  /** It was running under another supervisor, and everybody who is to know of it does. */
  resumed({ session }: Agent, aliveMs: number): void {
    this.#isAdopted = true
    this.#startedMs -= aliveMs
    this.#status = 'running'
    this.messageCount = session.messageCount
    this.announced()
  }

  /** A synthetic agent may say that it is still getting ready, and when it is. */
  say(status: 'initializing' | 'running'): void {
    if (this.#cause !== undefined || status === this.#status) return
    this.#status = status
    this.#deps.change({ status }).catch(noop)
    this.#deps.onStatus(status)
  }

  watchExit(pid: number | undefined, exit: Promise<EndOfTree>): void {
    this.pid = pid
    this.#exited = exit.then(({ error, ...how }) => {
      // Its own account of a failure says more.
      if (error && this.#result?.isSuccess !== false) this.#result = { isSuccess: false, error }
      // One that nobody saw is none.
      const seen = how.code === null && how.signal === null ? undefined : how
      this.#exit = seen
      this.#isExitOurs = this.#cause !== undefined
      this.#endsItself({ ...(seen && { exit: seen }), ...(error && this.#result && { result: this.#result }) })
    })
  }

  /** Its terminal was taken away; it would go on where nobody sees it. */
  watchSession(lost: Promise<void>): void {
    lost.then(() =>
      this.violates({ name: 'session_lost', message: 'The tmux session of the agent was ended from outside, so the agent was ended.' }),
    )
  }

  watchTime(timeoutMs: number, idleMs: number): void {
    const { clock } = this.#deps
    clock.after(timeoutMs, this.signal, () =>
      this.violates({ name: 'timeout', message: `The agent ran longer than its timeout of ${timeoutMs} ms and was ended.` }),
    )
    const look = (): void => {
      const leftMs = this.#lastSignOfLifeMs + idleMs - clock.now()
      if (leftMs > 0) clock.after(leftMs, this.signal, look)
      else this.violates({ name: 'idle_timeout', message: `The agent wrote nothing for ${idleMs} ms and was ended.` })
    }
    clock.after(idleMs, this.signal, look)
  }

  /** Messages of it were saved, this many by now. */
  heard(messageCount: number): void {
    this.messageCount = messageCount
    this.wrote()
  }

  /** A line that it has not ended is no message, and a sign of life all the same. */
  wrote(): void {
    this.#lastSignOfLifeMs = this.#deps.clock.now()
  }

  /** Its own verdict; then it should leave. */
  lastWord(result: AgentResult): void {
    this.#result = result
    this.#deps.clock.after(lastWordPatienceMs, this.signal, () => this.#endsItself({ result }))
  }

  /** What it told its task at last: then it leaves by itself, or is ended. By when is answered, and stays, however often it says so. */
  farewell({ status, message }: Farewell, patienceMs = farewellMs): string {
    const { clock, change } = this.#deps
    const isFirst = this.#leavesBy === undefined
    const by = this.#leavesBy ?? new Date(Date.parse(clock.wall()) + patienceMs).toISOString()
    this.#leavesBy = by
    this.#farewell = { status, message }
    // For a recovery, and for whoever adopts it: they know only the row.
    const farewell = { status, message, by }
    const error = { name: 'agent_failed', message }
    change({ result: status === 'completed' ? { isSuccess: true, farewell } : { isSuccess: false, error, farewell } }).catch(noop)
    if (isFirst) clock.after(patienceMs, this.signal, () => this.#endsItself({}))
    return by
  }

  /** For agents without a process: the last word is the end. */
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

  /** The scope began to close: if the agent had not ended by itself before, it was us. */
  #closing(): void {
    if (this.#cause !== undefined) return
    this.#cause = 'us'
    this.#stopping({})
  }

  #stopping(change: AgentChange): void {
    this.#lifetime.abort()
    this.#status = 'stopping'
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
