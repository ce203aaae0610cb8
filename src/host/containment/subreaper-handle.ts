import type { Duplex } from 'node:stream'
import type { Child, Exit } from '../../core/ports/effects.ts'
import { type News, type Order, splitLines } from './subreaper-messages.ts'

/**
 * The supervisor's side of a subreaper process that it started. The state `gone` means that the subreaper process has reported that
 * waitpid(2) found no child. When it ended without that report, the state is `lost`, and its tree must be found by other means (G3).
 */
export class SubreaperHandle {
  readonly pid: number
  /** The command's pid. */
  readonly started: Promise<number>
  /** The exit of the command; both fields are null when the subreaper process was lost before it reported it. */
  readonly exit: Promise<Exit>
  /** Settles when the subreaper process has ended and all its messages have been read. */
  readonly ended: Promise<void>
  /** True when the tree was observed as absent, so that the handle may be forgotten. */
  isSettled = false
  #state: 'running' | 'gone' | 'lost' = 'running'
  #hasExited = false
  #isGone = false
  #isKillSent = false
  #isKillConfirmed = false
  readonly #channel: Duplex
  readonly #started = Promise.withResolvers<number>()
  readonly #exit = Promise.withResolvers<Exit>()

  constructor(child: Child) {
    if (!child.channel) throw new Error('The subreaper process was started without its channel.')
    this.pid = child.pid
    this.started = this.#started.promise
    this.exit = this.#exit.promise
    this.#channel = child.channel
    // A write fails when the subreaper process has ended. Its exit reports that, so the error is ignored.
    this.#channel.on('error', () => {})
    this.#channel.on(
      'data',
      splitLines((line) => this.#receive(JSON.parse(line) as News)),
    )
    this.ended = child.exit.then(async () => {
      this.#hasExited = true
      // The last messages of the subreaper process were written before its exit. They are read in the next turn of the event loop.
      for (let turn = 0; turn < 2; turn++) await new Promise<void>((resolve) => setImmediate(resolve))
      this.#end()
    })
    // The launch awaits `started` itself. Without a handler here, a rejection before that await would end this process.
    this.started.catch(() => {})
  }

  get state(): 'running' | 'gone' | 'lost' {
    return this.#state
  }

  /** True while the subreaper process has not exited, so that its pid cannot have been reused. */
  get isRunning(): boolean {
    return !this.#hasExited
  }

  /** True when the subreaper process got the order to kill and has not confirmed it. */
  get isUnresponsive(): boolean {
    return this.#isKillSent && !this.#isKillConfirmed && this.#state === 'running'
  }

  send(order: Order): void {
    if (order.do === 'kill') this.#isKillSent = true
    if (!this.#isGone && !this.#hasExited && this.#channel.writable) this.#channel.write(`${JSON.stringify(order)}\n`)
  }

  #receive(news: News): void {
    if (news.is === 'started') this.#started.resolve(news.pid)
    if (news.is === 'failed') this.#started.reject(new Error(`the command could not be started (${news.error})`))
    if (news.is === 'killing') this.#isKillConfirmed = true
    if (news.is === 'exit') this.#exit.resolve({ code: news.code, signal: news.signal })
    if (news.is === 'gone') {
      this.#isGone = true
      // The subreaper process exits only when the channel closes. If it exited first, a write of ours could fail and discard its last
      // message.
      this.#channel.end()
    }
  }

  #end(): void {
    this.#channel.destroy()
    this.#state = this.#isGone ? 'gone' : 'lost'
    this.#started.reject(new Error('its subreaper process ended before the command was started'))
    this.#exit.resolve({ code: null, signal: null })
  }
}
