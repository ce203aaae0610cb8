import { type FSWatcher, watch } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { Clock } from '../../core/ports/clock.ts'

/**
 * The interval of polling. inotify(7) reports nothing when its queue is full, no watch is left or the folder is missing. Polling
 * limits the delay in these cases.
 */
const pollMs = 1_000

/** The most folders that are watched. Some machines allow one user only a few thousand inotify watches for all programs together. */
const maxWatchedFolders = 1_000

/** The followed logs of one folder, by file name. */
interface Folder {
  readonly listeners: Map<string, () => void>
  watcher: FSWatcher | undefined
}

/** Calls a listener when its log has grown. Uses one inotify watch for each folder with followed logs, and polls all of them slowly. */
export class LogWatch implements Disposable {
  readonly #folders = new Map<string, Folder>()
  readonly #lifetime = new AbortController()
  readonly #clock: Clock
  #isPolling = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(path: string, onGrowth: () => void): void {
    const directory = dirname(path)
    const folder = this.#folders.get(directory) ?? { listeners: new Map(), watcher: undefined }
    this.#folders.set(directory, folder)
    folder.listeners.set(basename(path), onGrowth)
    this.#start(directory, folder)
    if (!this.#isPolling) this.#clock.every(pollMs, this.#lifetime.signal, () => this.#poll())
    this.#isPolling = true
  }

  remove(path: string): void {
    const directory = dirname(path)
    const folder = this.#folders.get(directory)
    folder?.listeners.delete(basename(path))
    if (folder?.listeners.size !== 0) return
    folder.watcher?.close()
    this.#folders.delete(directory)
  }

  /** Starts to watch a folder. When this fails, because no watch is left or the folder does not exist yet, the next poll tries again. */
  #start(directory: string, folder: Folder): void {
    if (folder.watcher || this.#folders.size > maxWatchedFolders) return
    try {
      const watcher = watch(directory, (event, name) => {
        if (name === null) notifyAll(folder)
        else folder.listeners.get(name)?.()
        // An event with the folder's own name means that the folder was removed or renamed. A new folder at this path needs a new watch.
        if (event === 'rename' && name === basename(directory)) stop(folder, watcher)
      })
      watcher.on('error', () => stop(folder, watcher))
      watcher.unref()
      folder.watcher = watcher
    } catch {
      folder.watcher = undefined
    }
  }

  #poll(): void {
    for (const [directory, folder] of this.#folders) {
      this.#start(directory, folder)
      notifyAll(folder)
    }
  }

  [Symbol.dispose](): void {
    this.#lifetime.abort()
    for (const { watcher } of this.#folders.values()) watcher?.close()
    this.#folders.clear()
  }
}

function stop(folder: Folder, watcher: FSWatcher): void {
  watcher.close()
  if (folder.watcher === watcher) folder.watcher = undefined
}

function notifyAll({ listeners }: Folder): void {
  for (const notify of listeners.values()) notify()
}
