import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs'
import { errno } from '../../core/model/errors.ts'

/**
 * Syncs the write-ahead log to the disk. With `synchronous = NORMAL` a commit is only handed to the kernel, where it survives a crash
 * of Ebb but not a power cut. `FULL` would sync inside of the commit and block the event loop for 0.4 to 3.4 ms each time (measured;
 * 0.03 ms without). Here only the writes that must survive a power cut wait for the sync. SQLite does not lock the log file, so
 * opening and closing another descriptor of it drops no lock (sqlite.org/howtocorrupt.html is about the database file).
 */
export class WalSync {
  readonly #file: string
  #fd: number | undefined
  #usesThreads = false
  #waiting: PromiseWithResolvers<void>[] = []
  #running: Promise<void> | undefined
  /**
   * The first failure, kept for good: the kernel reports a failed write only once and then treats it as written (fsync(2)), so every
   * later sync fails, too.
   */
  #failure: unknown

  constructor(file: string) {
    this.#file = file
  }

  /** From now on syncs run in Node's thread pool. The caller has started the threads of the pool before, while pids were available. */
  useThreads(): void {
    this.#usesThreads = true
  }

  /** Resolves when all earlier commits are on the disk. Calls during a sync share the next one. */
  sync(): Promise<void> {
    const request = Promise.withResolvers<void>()
    this.#waiting.push(request)
    this.#running ??= this.#run()
    return request.promise
  }

  async idle(): Promise<void> {
    await this.#running
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const requests = this.#waiting
      this.#waiting = []
      try {
        if (this.#failure === undefined) await this.#sync()
      } catch (error) {
        this.#failure = error
      }
      for (const request of requests) {
        if (this.#failure === undefined) request.resolve()
        else request.reject(this.#failure)
      }
    }
    this.#running = undefined
  }

  async #sync(): Promise<void> {
    const fd = this.#open()
    if (fd === undefined) return
    if (!this.#usesThreads) {
      fdatasyncSync(fd)
      return
    }
    await new Promise<void>((resolve, reject) => fdatasync(fd, (error) => (error ? reject(error) : resolve())))
  }

  /** Undefined when there is no log because the file system does not support one; then SQLite syncs in every commit (see `prepare`). */
  #open(): number | undefined {
    try {
      this.#fd ??= openSync(`${this.#file}-wal`, 'r')
    } catch (error) {
      if (errno(error) !== 'ENOENT') throw error
    }
    return this.#fd
  }
}
