import type { AgentError } from '../../core/model/agent.ts'
import { sentence } from '../../core/model/errors.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Log } from '../../core/ports/log.ts'
import type { EndOfTree } from '../../core/ports/process.ts'
import type { RunnerNews, RunnerStatus, RunnerStream } from '../../core/ports/runner.ts'

export interface FollowerDeps {
  readonly effects: Pick<Effects, 'append'>
  readonly clock: Clock
  readonly log: Log
  readonly stream: RunnerStream
  /** Where its output goes. */
  readonly path: string
  /** More than so much is nobody's output: whoever reads the log sees that it is too much. */
  readonly mostBytes: number
  /** Throws when the runner does not answer: then nothing is known. */
  readonly status: (signal: AbortSignal) => Promise<RunnerStatus>
  readonly stop: (signal: AbortSignal) => Promise<unknown>
}

/** So long a connection may be silent before the runner is asked whether the agent lives. Ours ping more often. */
const silenceMs = 10_000

/** How often a runner that does not answer is asked again, at the longest. */
const longestPauseMs = 5_000
const shortestPauseMs = 100

/** A full disk is tried again this soon; meanwhile nothing is read, and it waits at the runner. */
const appendRetryMs = 500

/** The end of the stream is on its way when the agent is gone; with nothing heard for so long it is not. */
const lastWordsMs = 3_000

/** However much comes after its end: what takes longer is not on its way but made up. */
const mostLastWordsMs = 60_000

/** Whoever reads the log says that it is too much, and has this long to do so before the agent is said to have ended. */
const tooMuchMs = 2_000

const nobodySaw: EndOfTree = { code: null, signal: null }

/** How the stream ended, in the runner's own words. */
type LastWord = Extract<RunnerNews, { readonly is: 'complete' | 'error' }> | undefined

/**
 * One agent's stream, as it comes, into its log; and the watch over a connection that may be dead without saying so. The
 * agent has ended when the runner says so, never because it cannot be heard (G4).
 */
export class Follower {
  readonly #deps: FollowerDeps
  readonly #lifetime = new AbortController()
  readonly #exit = Promise.withResolvers<EndOfTree>()
  readonly #over = Promise.withResolvers<void>()
  #heardMs: number
  #bytes = 0
  /** When the runner first said that the agent is gone. */
  #goneMs: number | undefined
  /** Nothing is written to the log any more. */
  isOver = false
  /** What is worth knowing of how it went. */
  note: string | undefined

  constructor(deps: FollowerDeps) {
    this.#deps = deps
    this.#heardMs = deps.clock.now()
    this.#watch()
    void this.#follow()
  }

  /** Settles when the agent has come to its end, and all that it said is in the log. */
  get exit(): Promise<EndOfTree> {
    return this.#exit.promise
  }

  get over(): Promise<void> {
    return this.#over.promise
  }

  /**
   * The agent is gone, as the runner says. True once its last words are written, or none come any more: then this hangs up, so
   * it is only for those who mean to end the agent, or have waited long in vain. A runner may be wrong about who lives.
   */
  async finishes(signal: AbortSignal): Promise<boolean> {
    const { clock, stream } = this.#deps
    // From the first time on: whoever looks again and again must not wait for ever.
    this.#goneMs ??= clock.now()
    while (!this.isOver) {
      const leftMs = Math.min(Math.max(this.#goneMs, this.#heardMs) + lastWordsMs, this.#goneMs + mostLastWordsMs) - clock.now()
      if (leftMs <= 0) {
        this.note = 'the stream had no last word when the agent was gone, so lines may be missing'
        this.#deps.log.warn('The stream of a remote agent had no last word, so lines may be missing.', { agent: stream.agentId })
        this.#end()
        stream.hangUp()
        break
      }
      // While something comes, whoever asks looks again.
      if (signal.aborted) return false
      await this.#pause(leftMs, this.over, signal)
    }
    return true
  }

  /** It is not followed any more; what it may still say is nobody's. */
  dismiss(): void {
    this.#end()
    this.#deps.stream.hangUp()
    this.#lifetime.abort()
    this.#exit.resolve(nobodySaw)
  }

  #end(): void {
    this.isOver = true
    this.#over.resolve()
  }

  async #follow(): Promise<void> {
    const { stream, log } = this.#deps
    let said: LastWord
    try {
      for await (const news of stream.news) {
        this.#heardMs = this.#deps.clock.now()
        if (this.isOver) break
        if (news.is === 'output' && !(await this.#take(news.bytes))) break
        if (news.is === 'complete' || news.is === 'error') said = news
      }
    } catch (error) {
      if (!this.isOver) log.debug('The stream of a remote agent was lost.', { agent: stream.agentId, error: sentence(error) })
    }
    this.#end()
    stream.hangUp()
    const how = await this.#howItEnded(said)
    if (this.#bytes > this.#deps.mostBytes) await this.#pause(tooMuchMs)
    this.#lifetime.abort()
    this.#exit.resolve(how)
  }

  /** False when it wants no more. */
  async #take(bytes: Uint8Array): Promise<boolean> {
    // One byte over the limit is written: that is how the limit is seen to be broken.
    const taken = bytes.subarray(0, this.#deps.mostBytes + 1 - this.#bytes)
    this.#bytes += taken.length
    await this.#append(taken)
    return this.#bytes <= this.#deps.mostBytes
  }

  /** All of it, or it is tried again: what is not read waits at the runner (G8). */
  async #append(bytes: Uint8Array): Promise<void> {
    const { effects, path, log } = this.#deps
    for (let isFirst = true; !this.isOver; isFirst = false) {
      try {
        effects.append(path, bytes, 0o600)
        return
      } catch (error) {
        if (isFirst) log.warn('The log of a remote agent cannot be written, and is tried again.', { path, error: sentence(error) })
        await this.#pause(appendRetryMs, this.over)
      }
    }
  }

  /** By what the runner knows of it, however long it takes until it can be asked. A lost stream has stopped it; if not, we do. */
  async #howItEnded(said: LastWord): Promise<EndOfTree> {
    const { signal } = this.#lifetime
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        const status = await this.#deps.status(signal)
        if (status.is === 'not-found') return endOf(undefined, said)
        if (!status.isAlive) return endOf(status, said)
        await this.#deps.stop(signal)
      } catch {
        // It said itself how it ended: more is not needed, and may never come.
        if (said?.is === 'complete') return endOf(undefined, said)
      }
      await this.#pause(Math.min(longestPauseMs, shortestPauseMs * 2 ** Math.min(attempt, 10)))
    }
    return nobodySaw
  }

  /** The kernel does not tell of a peer that vanished while nothing is sent to it (RFC 9293, 3.8.4). */
  #watch(): void {
    const { clock, stream, status } = this.#deps
    const { signal } = this.#lifetime
    let isAsking = false
    clock.every(silenceMs / 4, signal, () => {
      if (this.isOver || isAsking || clock.now() - this.#heardMs < silenceMs) return
      isAsking = true
      status(signal)
        .then(async (seen) => {
          const isGone = seen.is === 'not-found' || !seen.isAlive
          // It is over, and its end was lost on the way; what is still on its way comes first.
          if (isGone && (await this.finishes(signal))) stream.hangUp()
          // Alive: somebody is there, and was heard.
          else this.#heardMs = clock.now()
        })
        .catch(() => {}) // Unknown is not over: it is asked again.
        .finally(() => {
          isAsking = false
        })
    })
  }

  /** Ends at the event, or with whoever waits. Does not keep the process alive. */
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

function endOf(status: Extract<RunnerStatus, { readonly is: 'known' }> | undefined, said: LastWord): EndOfTree {
  const { exitCode = null, signal = null } = status ?? {}
  const hasExit = exitCode !== null || signal !== null
  const exit = hasExit ? { code: exitCode, signal: exitCode === null ? (signal as NodeJS.Signals) : null } : nobodySaw
  // An exit code of 0 is no success where the runner says that it was none.
  if (said?.is === 'error') return { ...exit, error: errorOf(exit, said.message) }
  return hasExit || said?.is !== 'complete' ? exit : { code: 0, signal: null }
}

/** Called by what is known, and in the runner's words. */
function errorOf({ code, signal }: EndOfTree, message: string): AgentError {
  const name = signal !== null ? 'signal' : code !== null && code !== 0 ? 'exit_code' : 'runner_error'
  return { name, message: message.trim() || 'The runner says that the agent failed.' }
}
