import type { Clock } from '../../core/ports/clock.ts'
import { type CopyDeps, copyOutput, sizeOf } from './copy.ts'
import { statusOf } from './daemon.ts'
import type { OutputPaths } from './ports.ts'
import { waits } from './waits.ts'

/** Copies what a container writes while it writes it, across restarts of the daemon. */

export interface FollowerDeps extends CopyDeps {
  readonly clock: Clock
}

/** Whose output goes where, and how much of it at most. */
export interface Followed {
  readonly id: string
  readonly paths: OutputPaths
  readonly mostBytes: number
}

/** Some hundred milliseconds. */
const endedAttempt = 6

class Follower {
  readonly #deps: FollowerDeps
  readonly #lifetime = new AbortController()
  readonly #ended: Promise<void>

  constructor(deps: FollowerDeps, followed: Followed) {
    this.#deps = deps
    this.#ended = this.#follow(followed)
  }

  /** Afterwards not one byte more is written. */
  async stop(): Promise<void> {
    this.#lifetime.abort()
    await this.#ended
  }

  async #follow({ id, paths, mostBytes }: Followed): Promise<void> {
    const { signal } = this.#lifetime
    for (let attempt = 1; !signal.aborted; attempt++) {
      const before = sizeOf(paths.stdout) + sizeOf(paths.stderr)
      try {
        await copyOutput(this.#deps, id, paths, { follows: true, signal, mostBytes })
        // Who ends a container stops its follower in the same moment, and then nobody needs to ask: thirty such questions at once
        // are a tenth of what the daemon has to do.
        await waits(this.#deps.clock, endedAttempt, signal)
        if (signal.aborted || !(await this.#mayWriteMore(id))) return
      } catch (error) {
        // Somebody removed it, and what it wrote last with it. Otherwise the daemon is away, or our disk is full: what is
        // missing is still there, and is tried again.
        if (statusOf(error) === 404) return
      }
      if (sizeOf(paths.stdout) + sizeOf(paths.stderr) > before) attempt = 1
      if (!signal.aborted) await waits(this.#deps.clock, attempt, signal)
    }
  }

  /** The stream of one that runs may end because the daemon does. */
  async #mayWriteMore(id: string): Promise<boolean> {
    const seen = await this.#deps.looks.inspect(id, this.#lifetime.signal)
    return seen !== undefined && isRunning(seen.state)
  }
}

/** The followers of this process, by the scope of their agent. */
export class Followers {
  readonly #deps: FollowerDeps
  readonly #all = new Map<string, Follower>()

  constructor(deps: FollowerDeps) {
    this.#deps = deps
  }

  start(scopeId: string, followed: Followed): void {
    if (!this.#all.has(scopeId)) this.#all.set(scopeId, new Follower(this.#deps, followed))
  }

  async stop(scopeId: string): Promise<void> {
    await this.#all.get(scopeId)?.stop()
    this.#all.delete(scopeId)
  }
}

/** Something runs in it, or is about to. */
export function isRunning(state: string): boolean {
  return state === 'running' || state === 'paused' || state === 'restarting'
}
