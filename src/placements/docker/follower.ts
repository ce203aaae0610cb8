import type { Clock } from '../../core/ports/clock.ts'
import { type CopyDeps, copyOutput, sizeOf } from './copy.ts'
import { statusOf } from './daemon.ts'
import type { OutputPaths } from './ports.ts'
import { backoff } from './waits.ts'

/** Copies the output of a container while it is written, across restarts of the daemon. */

export interface FollowerDeps extends CopyDeps {
  readonly clock: Clock
}

/** The container to follow, the logs for its output, and the limit of each stream. */
export interface Followed {
  readonly id: string
  readonly paths: OutputPaths
  readonly mostBytes: number
}

/** After a stream has ended, the follower waits some hundred milliseconds: the delay of this attempt of the backoff. */
const endedAttempt = 6

class Follower {
  readonly #deps: FollowerDeps
  readonly #lifetime = new AbortController()
  readonly #ended: Promise<void>

  constructor(deps: FollowerDeps, followed: Followed) {
    this.#deps = deps
    this.#ended = this.#follow(followed)
  }

  /** Stops the copy. When it resolves, no further byte is written. */
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
        // A close stops the follower right after it has ended the container, so waiting here usually saves the query for the container's
        // state. When thirty containers end at once, these queries are a tenth of the daemon's work.
        await backoff(this.#deps.clock, endedAttempt, signal)
        if (signal.aborted || !(await this.#mayWriteMore(id))) return
      } catch (error) {
        // 404: somebody removed the container, and its last output with it. After any other error (the daemon is away, or the disk is full)
        // the missing output still exists, and the copy is retried.
        if (statusOf(error) === 404) return
      }
      if (sizeOf(paths.stdout) + sizeOf(paths.stderr) > before) attempt = 1
      if (!signal.aborted) await backoff(this.#deps.clock, attempt, signal)
    }
  }

  /** True when the container still runs after its stream has ended, for example because the daemon stopped. */
  async #mayWriteMore(id: string): Promise<boolean> {
    const seen = await this.#deps.queries.inspect(id, this.#lifetime.signal)
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

/** True when a process runs in the container, or is about to be started. */
export function isRunning(state: string): boolean {
  return state === 'running' || state === 'paused' || state === 'restarting'
}
