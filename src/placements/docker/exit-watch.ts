import type { Clock } from '../../core/ports/clock.ts'
import type { Exit } from '../../core/ports/effects.ts'
import { statusOf } from './daemon.ts'
import { isRunning } from './follower.ts'
import type { DaemonMark, DockerQueries, InspectedContainer } from './ports.ts'
import { requireSame } from './same-daemon.ts'
import { waits } from './waits.ts'

/** Nobody saw how it ended. */
export const unseen: Exit = { code: null, signal: null }

export interface WatchDeps {
  readonly looks: DockerQueries
  readonly clock: Clock
}

export interface Watched {
  readonly id: string
  readonly daemon: DaemonMark | undefined
  /** It has not been started yet, so no end can have been missed. */
  readonly isFresh: boolean
  /** Told when it ended while the daemon did not answer: what it wrote then is nowhere. */
  readonly onUnheard: () => void
}

/**
 * Hears of the end of a container's main process, also across restarts of the daemon. The end is the first one: that somebody
 * has told the daemon to start it again changes nothing about that.
 */
export class ExitWatch {
  readonly exit: Promise<Exit>
  readonly #ended = Promise.withResolvers<Exit>()
  readonly #heard = Promise.withResolvers<void>()
  readonly #lifetime = new AbortController()
  readonly #deps: WatchDeps
  readonly #onUnheard: () => void
  /** The daemon did not answer, and nobody has seen it run since. */
  #isLost = false

  constructor(deps: WatchDeps, watched: Watched) {
    this.#deps = deps
    this.#onUnheard = watched.onUnheard
    this.exit = this.#ended.promise
    this.#heard.promise.catch(() => {})
    this.#watch(watched).then(
      (exit) => this.settle(exit),
      () => this.settle(unseen),
    )
  }

  /** From when on no end is missed; rejects when the daemon does not answer. */
  get heard(): Promise<void> {
    return this.#heard.promise
  }

  /** It is known how it ended, or that nobody knows. */
  get isSettled(): boolean {
    return this.#lifetime.signal.aborted
  }

  /** Somebody else saw it run: all that it writes from here on is heard. */
  sawRunning(): void {
    this.#isLost = false
  }

  /** Somebody else saw it. The first word counts. */
  settle(exit: Exit): void {
    if (this.isSettled) return
    if (this.#isLost) this.#onUnheard()
    this.#lifetime.abort()
    this.#ended.resolve(exit)
  }

  async #watch({ id, daemon, isFresh }: Watched): Promise<Exit> {
    const { looks, clock } = this.#deps
    const { signal } = this.#lifetime
    let mayHaveEnded = !isFresh
    for (let attempt = 1; !signal.aborted; attempt++) {
      const heard = Promise.withResolvers<void>()
      const next = looks.nextExit(id, signal, heard.resolve)
      try {
        await Promise.race([heard.promise, next])
        this.#heard.resolve()
        attempt = 1
        const seen = mayHaveEnded ? await looks.inspect(id, signal) : undefined
        if (mayHaveEnded && !(seen && isStillToEnd(seen))) {
          next.catch(() => {})
          return exitOf(seen)
        }
        this.sawRunning()
        return { code: await next, signal: null }
      } catch (error) {
        next.catch(() => {})
        this.#heard.reject(error)
        if (statusOf(error) === undefined) this.#isLost = true
        if (statusOf(error) === 404 && (await this.#isSame(daemon))) return unseen
      }
      mayHaveEnded = true
      await waits(clock, attempt, signal)
    }
    return unseen
  }

  /** Another daemon, or one that does not say which it is, knows nothing about the end of this one (G4). */
  async #isSame(daemon: DaemonMark | undefined): Promise<boolean> {
    return await requireSame(this.#deps.looks, daemon, this.#lifetime.signal).then(
      () => true,
      () => false,
    )
  }
}

/** It runs, or was never started. */
function isStillToEnd({ state }: InspectedContainer): boolean {
  return isRunning(state) || state === 'created'
}

/** Of one in which nothing runs; a signal shows as 128 and its number, as in a shell. */
export function exitOf(seen: InspectedContainer | undefined): Exit {
  return seen?.exitCode === undefined ? unseen : { code: seen.exitCode, signal: null }
}
