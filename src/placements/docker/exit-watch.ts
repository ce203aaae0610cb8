import type { Clock } from '../../core/ports/clock.ts'
import type { Exit } from '../../core/ports/effects.ts'
import { statusOf } from './daemon.ts'
import { isRunning } from './follower.ts'
import type { DaemonMark, DockerQueries, InspectedContainer } from './ports.ts'
import { requireSame } from './same-daemon.ts'
import { backoff } from './waits.ts'

/** No exit code and no signal: the exit is unknown. */
export const unknownExit: Exit = { code: null, signal: null }

export interface WatchDeps {
  readonly queries: DockerQueries
  readonly clock: Clock
}

export interface Watched {
  readonly id: string
  readonly daemon: DaemonMark | undefined
  /** True when the watch begins before the container is started, so that no exit can have been missed. */
  readonly isFresh: boolean
  /** Called when the container ended while the daemon did not answer: its output of that time is lost. */
  readonly onMissedEnd: () => void
}

/**
 * Waits for the exit of a container's main process, across restarts of the daemon. Only the first exit counts, even when the daemon was
 * told to restart the container.
 */
export class ExitWatch {
  readonly exit: Promise<Exit>
  readonly #ended = Promise.withResolvers<Exit>()
  readonly #registered = Promise.withResolvers<void>()
  readonly #lifetime = new AbortController()
  readonly #deps: WatchDeps
  readonly #onMissedEnd: () => void
  /** True when the daemon did not answer, and the container has not been observed running since then. */
  #isLost = false

  constructor(deps: WatchDeps, watched: Watched) {
    this.#deps = deps
    this.#onMissedEnd = watched.onMissedEnd
    this.exit = this.#ended.promise
    this.#registered.promise.catch(() => {}) // Swallowed: only a start awaits the registration. A resumed watch retries by itself.
    this.#watch(watched).then(
      (exit) => this.settle(exit),
      () => this.settle(unknownExit),
    )
  }

  /** Resolves when the daemon has registered the wait: from then on no exit is missed. Rejects when the daemon does not answer. */
  get registered(): Promise<void> {
    return this.#registered.promise
  }

  /** True when the exit was found, or when it can no longer be found. */
  get isSettled(): boolean {
    return this.#lifetime.signal.aborted
  }

  /** The container was observed running, so all its output from now on will be copied. */
  sawRunning(): void {
    this.#isLost = false
  }

  /** Settles the watch with an exit that another observation found. Later calls have no effect. */
  settle(exit: Exit): void {
    if (this.isSettled) return
    if (this.#isLost) this.#onMissedEnd()
    this.#lifetime.abort()
    this.#ended.resolve(exit)
  }

  async #watch({ id, daemon, isFresh }: Watched): Promise<Exit> {
    const { queries, clock } = this.#deps
    const { signal } = this.#lifetime
    let mayHaveEnded = !isFresh
    for (let attempt = 1; !signal.aborted; attempt++) {
      const registered = Promise.withResolvers<void>()
      const next = queries.nextExit(id, signal, registered.resolve)
      try {
        await Promise.race([registered.promise, next])
        this.#registered.resolve()
        attempt = 1
        const seen = mayHaveEnded ? await queries.inspect(id, signal) : undefined
        if (mayHaveEnded && !(seen && isStillToEnd(seen))) {
          next.catch(() => {}) // Swallowed: the exit is known already, so this wait is not needed any more.
          return exitOf(seen)
        }
        this.sawRunning()
        return { code: await next, signal: null }
      } catch (error) {
        next.catch(() => {}) // Swallowed: the wait for the exit fails with the same error, or is not needed any more.
        this.#registered.reject(error)
        if (statusOf(error) === undefined) this.#isLost = true
        if (statusOf(error) === 404 && (await this.#isSame(daemon))) return unknownExit
      }
      mayHaveEnded = true
      await backoff(clock, attempt, signal)
    }
    return unknownExit
  }

  /**
   * True when the current daemon is the one that created the container. Any other daemon, or one without an identity, knows nothing about
   * the exit of the container (G4).
   */
  async #isSame(daemon: DaemonMark | undefined): Promise<boolean> {
    return await requireSame(this.#deps.queries, daemon, this.#lifetime.signal).then(
      () => true,
      () => false,
    )
  }
}

/** True when the container runs, or was never started. */
function isStillToEnd({ state }: InspectedContainer): boolean {
  return isRunning(state) || state === 'created'
}

/** The exit of a container in which nothing runs. Docker reports a signal as exit code 128 plus its number. */
export function exitOf(seen: InspectedContainer | undefined): Exit {
  return seen?.exitCode === undefined ? unknownExit : { code: seen.exitCode, signal: null }
}
