import type { AgentError } from '../../core/model/agent.ts'
import { sentence } from '../../core/model/errors.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Log } from '../../core/ports/log.ts'
import type { EndOfTree } from '../../core/ports/process.ts'
import type { RunnerNews, RunnerStatus, RunnerStream } from './ports.ts'

export interface FollowerDeps {
  readonly effects: Pick<Effects, 'append'>
  readonly clock: Clock
  readonly log: Log
  readonly stream: RunnerStream
  /** The path of the log to which the output is written. */
  readonly path: string
  /** The limit of the output in bytes. One byte more is written, from which the reader of the log sees that the limit was exceeded. */
  readonly mostBytes: number
  /** Queries the status of the agent. Throws when the runner does not answer: the status is then unknown. */
  readonly status: (signal: AbortSignal) => Promise<RunnerStatus>
  readonly stop: (signal: AbortSignal) => Promise<unknown>
}

/** After this time of silence on the connection the runner is queried. Ebb's own runners send pings more often. */
const silenceMs = 10_000

/** The longest delay between two queries to a runner that does not answer. */
const longestPauseMs = 5_000
const shortestPauseMs = 100

/** The delay before a failed write to the log is retried, for example while the disk is full. Meanwhile the output waits at the runner. */
const appendRetryMs = 500

/** How long the last output is awaited after the agent is gone. When nothing was received for this time, the end of the stream is lost. */
const lastOutputMs = 3_000

/** The longest wait for the end of the stream after the agent is gone, however much is received. */
const longestLastOutputMs = 60_000

/**
 * The reader of the log ends an agent that exceeded its output limit. The reader has this time to report that before the exit is reported.
 */
const reportLimitMs = 2_000

const unknownExit: EndOfTree = { code: null, signal: null }

/** The last event of the stream, which says how the agent ended. */
type LastEvent = Extract<RunnerNews, { readonly is: 'complete' | 'error' }> | undefined

/**
 * Copies the stream of one agent into its log, and detects a connection that is dead without an error. The agent counts as ended when the
 * runner says so, never because the runner is silent (G4).
 */
export class Follower {
  readonly #deps: FollowerDeps
  readonly #lifetime = new AbortController()
  readonly #exit = Promise.withResolvers<EndOfTree>()
  readonly #over = Promise.withResolvers<void>()
  #receivedMs: number
  #bytes = 0
  /** The time at which the runner first reported that the agent is gone. */
  #goneMs: number | undefined
  /** True when nothing more will be written to the log. */
  isOver = false
  /** A remark on the end of the stream, for the report. */
  note: string | undefined

  constructor(deps: FollowerDeps) {
    this.#deps = deps
    this.#receivedMs = deps.clock.now()
    this.#watch()
    void this.#follow()
  }

  /** Settles when the agent has ended and all its output is in the log. */
  get exit(): Promise<EndOfTree> {
    return this.#exit.promise
  }

  get over(): Promise<void> {
    return this.#over.promise
  }

  /**
   * Waits for the end of the stream after the runner has reported that the agent is gone. Returns true when the rest of the stream is
   * written, or when it does not arrive in time; in the second case the connection is closed. As closing the connection ends the agent, and
   * a runner may be wrong, this must only be called to end an agent, or after a long silence.
   */
  async finishes(signal: AbortSignal): Promise<boolean> {
    const { clock, stream } = this.#deps
    // The wait is counted from the first call, so that repeated calls cannot extend it for ever.
    this.#goneMs ??= clock.now()
    while (!this.isOver) {
      const leftMs = Math.min(Math.max(this.#goneMs, this.#receivedMs) + lastOutputMs, this.#goneMs + longestLastOutputMs) - clock.now()
      if (leftMs <= 0) {
        this.note = 'the stream had no final event when the agent was gone, so lines may be missing'
        this.#deps.log.warn('The stream of a remote agent had no final event, so lines may be missing.', { agent: stream.agentId })
        this.#end()
        stream.hangUp()
        break
      }
      // The stream still sends output, so the caller has to observe again.
      if (signal.aborted) return false
      await this.#pause(leftMs, this.over, signal)
    }
    return true
  }

  /** Stops following the stream. Later output is discarded. */
  dismiss(): void {
    this.#end()
    this.#deps.stream.hangUp()
    this.#lifetime.abort()
    this.#exit.resolve(unknownExit)
  }

  #end(): void {
    this.isOver = true
    this.#over.resolve()
  }

  async #follow(): Promise<void> {
    const { stream, log } = this.#deps
    let last: LastEvent
    try {
      for await (const news of stream.news) {
        this.#receivedMs = this.#deps.clock.now()
        if (this.isOver) break
        if (news.is === 'output' && !(await this.#take(news.bytes))) break
        if (news.is === 'complete' || news.is === 'error') last = news
      }
    } catch (error) {
      if (!this.isOver) log.debug('The stream of a remote agent was lost.', { agent: stream.agentId, error: sentence(error) })
    }
    this.#end()
    stream.hangUp()
    const exit = await this.#findExit(last)
    if (this.#bytes > this.#deps.mostBytes) await this.#pause(reportLimitMs)
    this.#lifetime.abort()
    this.#exit.resolve(exit)
  }

  /** Appends output to the log. Returns false when the limit is exceeded. */
  async #take(bytes: Uint8Array): Promise<boolean> {
    // One byte over the limit is written, from which the reader of the log sees that the limit was exceeded.
    const taken = bytes.subarray(0, this.#deps.mostBytes + 1 - this.#bytes)
    this.#bytes += taken.length
    await this.#append(taken)
    return this.#bytes <= this.#deps.mostBytes
  }

  /** Writes all bytes, and retries until it succeeds. Unread output waits at the runner (G8). */
  async #append(bytes: Uint8Array): Promise<void> {
    const { effects, path, log } = this.#deps
    for (let isFirst = true; !this.isOver; isFirst = false) {
      try {
        effects.append(path, bytes, 0o600)
        return
      } catch (error) {
        if (isFirst) log.warn('The log of a remote agent cannot be written; the write is retried.', { path, error: sentence(error) })
        await this.#pause(appendRetryMs, this.over)
      }
    }
  }

  /**
   * Gets the exit from the runner, and retries until the runner answers. By the protocol, a lost stream stops the agent. An agent that is
   * still alive is stopped by a further call.
   */
  async #findExit(last: LastEvent): Promise<EndOfTree> {
    const { signal } = this.#lifetime
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        const status = await this.#deps.status(signal)
        if (status.is === 'not-found') return endOf(undefined, last)
        if (!status.isAlive) return endOf(status, last)
        await this.#deps.stop(signal)
      } catch {
        // The stream itself reported success, so the exit is known although the runner does not answer.
        if (last?.is === 'complete') return endOf(undefined, last)
      }
      await this.#pause(Math.min(longestPauseMs, shortestPauseMs * 2 ** Math.min(attempt, 10)))
    }
    return unknownExit
  }

  /**
   * Queries the runner when the stream is silent: the kernel does not detect a vanished peer while nothing is sent to it (RFC 9293, 3.8.4).
   */
  #watch(): void {
    const { clock, stream, status } = this.#deps
    const { signal } = this.#lifetime
    let isQuerying = false
    clock.every(silenceMs / 4, signal, () => {
      if (this.isOver || isQuerying || clock.now() - this.#receivedMs < silenceMs) return
      isQuerying = true
      status(signal)
        .then(async (seen) => {
          const isGone = seen.is === 'not-found' || !seen.isAlive
          // The agent has ended and the end of the stream was lost. The output that is still arriving is written first.
          if (isGone && (await this.finishes(signal))) stream.hangUp()
          // The agent is alive, and its runner answers.
          else this.#receivedMs = clock.now()
        })
        .catch(() => {}) // Swallowed: an unknown state does not mean ended. The next tick queries again.
        .finally(() => {
          isQuerying = false
        })
    })
  }

  /** Waits for the event, the time, or an abort. Does not keep the process alive. */
  async #pause(ms: number, event: Promise<unknown> = new Promise(() => {}), ...signals: readonly AbortSignal[]): Promise<void> {
    const timer = new AbortController()
    const { clock } = this.#deps
    await new Promise<void>((resolve) => {
      const wake = (): void => resolve()
      clock.every(ms, timer.signal, wake)
      void event.then(wake, wake)
      for (const signal of [this.#lifetime.signal, ...signals]) {
        if (signal.aborted) wake()
        signal.addEventListener('abort', wake, { once: true, signal: timer.signal })
      }
    })
    timer.abort()
  }
}

function endOf(status: Extract<RunnerStatus, { readonly is: 'known' }> | undefined, last: LastEvent): EndOfTree {
  const { exitCode = null, signal = null } = status ?? {}
  const hasExit = exitCode !== null || signal !== null
  const exit = hasExit ? { code: exitCode, signal: exitCode === null ? (signal as NodeJS.Signals) : null } : unknownExit
  // An exit code of 0 does not count as success when the runner reports an error.
  if (last?.is === 'error') return { ...exit, error: errorOf(exit, last.message) }
  return hasExit || last?.is !== 'complete' ? exit : { code: 0, signal: null }
}

/** The error of an agent: its name follows from the exit, and its message is the runner's. */
function errorOf({ code, signal }: EndOfTree, message: string): AgentError {
  const name = signal !== null ? 'signal' : code !== null && code !== 0 ? 'exit_code' : 'runner_error'
  return { name, message: message.trim() || 'The runner reports that the agent failed.' }
}
