import { type FSWatcher, watch } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { Clock } from '../../core/ports/clock.ts'

/** What the kernel does not tell (inotify(7): a full queue, no watch left, a folder that is not there) is seen this late at most. */
const slowLookMs = 1_000

/** A user has a few thousand of them for all his programs, on some machines. */
const mostFolders = 1_000

/** The logs of one folder that are followed, by their names in it. */
interface Folder {
  readonly listeners: Map<string, () => void>
  watcher: FSWatcher | undefined
}

/** Who follows a log is told when it grew: by one watch on each folder that has such logs, and a slow look at all of them. */
export class LogWatch implements Disposable {
  readonly #folders = new Map<string, Folder>()
  readonly #lifetime = new AbortController()
  readonly #clock: Clock
  #isLooking = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(path: string, onGrowth: () => void): void {
    const directory = dirname(path)
    const folder = this.#folders.get(directory) ?? { listeners: new Map(), watcher: undefined }
    this.#folders.set(directory, folder)
    folder.listeners.set(basename(path), onGrowth)
    this.#start(directory, folder)
    if (!this.#isLooking) this.#clock.every(slowLookMs, this.#lifetime.signal, () => this.#look())
    this.#isLooking = true
  }

  remove(path: string): void {
    const directory = dirname(path)
    const folder = this.#folders.get(directory)
    folder?.listeners.delete(basename(path))
    if (folder?.listeners.size !== 0) return
    folder.watcher?.close()
    this.#folders.delete(directory)
  }

  /** Where it is not possible now, the slow look tries again: there are no watches left, or the folder is not there (yet). */
  #start(directory: string, folder: Folder): void {
    if (folder.watcher || this.#folders.size > mostFolders) return
    try {
      const watcher = watch(directory, (event, name) => {
        if (name === null) tellAll(folder)
        else folder.listeners.get(name)?.()
        // The folder itself was removed or renamed, which comes with its own name: a new one at its place has to be watched anew.
        if (event === 'rename' && name === basename(directory)) stop(folder, watcher)
      })
      watcher.on('error', () => stop(folder, watcher))
      watcher.unref()
      folder.watcher = watcher
    } catch {
      folder.watcher = undefined
    }
  }

  #look(): void {
    for (const [directory, folder] of this.#folders) {
      this.#start(directory, folder)
      tellAll(folder)
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

function tellAll({ listeners }: Folder): void {
  for (const tell of listeners.values()) tell()
}
