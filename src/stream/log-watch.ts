import { type FSWatcher, watch } from 'node:fs'
import { basename } from 'node:path'
import type { Clock } from '../ports/clock.ts'

/** Told lost by the kernel (inotify(7), a full queue), growth is seen this late at most. */
const slowLookMs = 1_000

/** One watch on the folder of logs for all of them: who follows a file is told when it grew. */
export class LogWatch implements Disposable {
  readonly #directory: string
  readonly #listeners = new Map<string, () => void>()
  readonly #lifetime = new AbortController()
  readonly #clock: Clock
  #watcher: FSWatcher | undefined
  #isLooking = false

  constructor(directory: string, clock: Clock) {
    this.#directory = directory
    this.#clock = clock
  }

  add(path: string, onGrowth: () => void): void {
    this.#listeners.set(basename(path), onGrowth)
    if (!this.#watcher) this.#start()
    if (!this.#isLooking) this.#clock.every(slowLookMs, this.#lifetime.signal, () => this.#all())
    this.#isLooking = true
  }

  remove(path: string): void {
    this.#listeners.delete(basename(path))
  }

  #start(): void {
    try {
      this.#watcher = watch(this.#directory, (_event, name) => {
        if (name === null) this.#all()
        else this.#listeners.get(name)?.()
      })
      // The folder went away, or there are no watches left: the slow look remains.
      this.#watcher.on('error', () => {})
      this.#watcher.unref()
    } catch {
      // For want of watches (inotify(7)); the next who follows tries again.
      this.#watcher = undefined
    }
  }

  #all(): void {
    for (const tell of this.#listeners.values()) tell()
  }

  [Symbol.dispose](): void {
    this.#lifetime.abort()
    this.#watcher?.close()
    this.#listeners.clear()
  }
}
