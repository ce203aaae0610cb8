import type { Duplex } from 'node:stream'
import type { Child, Exit } from '../../core/ports/effects.ts'
import { type News, type Order, splitLines } from './subreaper-messages.ts'

/**
 * A keeper that we started, from our side. `gone` is only ever said after the keeper's own word that waitpid(2) found
 * no child; a keeper that ended without it is `lost`, and what it kept must be looked for by other means (G3).
 */
export class SubreaperHandle {
  readonly pid: number
  /** The command's pid. */
  readonly started: Promise<number>
  /** The command's own end; unknown in both fields when the keeper was lost before it could tell. */
  readonly exit: Promise<Exit>
  /** The keeper's process is gone, and all it ever said was heard. */
  readonly ended: Promise<void>
  /** Seen absent: nobody will ask for it again. */
  isSettled = false
  #state: 'running' | 'gone' | 'lost' = 'running'
  #hasLeft = false
  #isGone = false
  #wasKillAsked = false
  #wasKillHeard = false
  readonly #channel: Duplex
  readonly #started = Promise.withResolvers<number>()
  readonly #exit = Promise.withResolvers<Exit>()

  constructor(child: Child) {
    if (!child.channel) throw new Error('The keeper was started without its channel.')
    this.pid = child.pid
    this.started = this.#started.promise
    this.exit = this.#exit.promise
    this.#channel = child.channel
    // A failed write is a keeper that has ended; its exit says so.
    this.#channel.on('error', () => {})
    this.#channel.on(
      'data',
      splitLines((line) => this.#hear(JSON.parse(line) as News)),
    )
    this.ended = child.exit.then(async () => {
      this.#hasLeft = true
      // Its last words were written before; they are read in the next turn of the event loop.
      for (let turn = 0; turn < 2; turn++) await new Promise<void>((resolve) => setImmediate(resolve))
      this.#end()
    })
    this.started.catch(() => {})
  }

  get state(): 'running' | 'gone' | 'lost' {
    return this.#state
  }

  /** Its pid is still its own. */
  get isThere(): boolean {
    return !this.#hasLeft
  }

  /** It was told to kill and has not answered. */
  get isDeaf(): boolean {
    return this.#wasKillAsked && !this.#wasKillHeard && this.#state === 'running'
  }

  tell(order: Order): void {
    if (order.do === 'kill') this.#wasKillAsked = true
    if (!this.#isGone && !this.#hasLeft && this.#channel.writable) this.#channel.write(`${JSON.stringify(order)}\n`)
  }

  #hear(news: News): void {
    if (news.is === 'started') this.#started.resolve(news.pid)
    if (news.is === 'failed') this.#started.reject(new Error(`the command could not be started (${news.error})`))
    if (news.is === 'killing') this.#wasKillHeard = true
    if (news.is === 'exit') this.#exit.resolve({ code: news.code, signal: news.signal })
    if (news.is === 'gone') {
      this.#isGone = true
      // It stays until we have heard it: were it to leave first, a write of ours could fail and take its word with it.
      this.#channel.end()
    }
  }

  #end(): void {
    this.#channel.destroy()
    this.#state = this.#isGone ? 'gone' : 'lost'
    this.#started.reject(new Error('its keeper ended before the command was started'))
    this.#exit.resolve({ code: null, signal: null })
  }
}
