import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs'
import { errno } from '../../core/model/errors.ts'

/**
 * SQLite leaves a commit with the kernel (`synchronous = NORMAL`), where it survives our death. This makes commits survive a
 * power cut too, as `FULL` would, but those who asked wait for it and nobody else: `FULL` does it inside the commit, and
 * blocks the event loop for 0.4 to 3.4 ms each time (measured; 0.03 ms without). The log is not locked, so a descriptor of our
 * own does no harm (sqlite.org/howtocorrupt.html is about the database's own file).
 */
export class WalSync {
  readonly #file: string
  #fd: number | undefined
  #isBeside = false
  #waiting: PromiseWithResolvers<void>[] = []
  #running: Promise<void> | undefined
  /** The kernel tells of a write that failed once, and then takes it for written (fsync(2)): nobody may be promised anything after it. */
  #failure: unknown

  constructor(file: string) {
    this.#file = file
  }

  /** From now on in Node's threads: for those who have started them while there were pids for them. */
  goBeside(): void {
    this.#isBeside = true
  }

  /** Settles when everything that was committed before is on the disk; those who come while it works share the next one. */
  through(): Promise<void> {
    const one = Promise.withResolvers<void>()
    this.#waiting.push(one)
    this.#running ??= this.#run()
    return one.promise
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
      const asked = this.#waiting
      this.#waiting = []
      try {
        if (this.#failure === undefined) await this.#sync()
      } catch (error) {
        this.#failure = error
      }
      for (const one of asked) {
        if (this.#failure === undefined) one.resolve()
        else one.reject(this.#failure)
      }
    }
    this.#running = undefined
  }

  async #sync(): Promise<void> {
    const fd = this.#open()
    if (fd === undefined) return
    if (!this.#isBeside) {
      fdatasyncSync(fd)
      return
    }
    await new Promise<void>((resolve, reject) => fdatasync(fd, (error) => (error ? reject(error) : resolve())))
  }

  /** Without a log the file system allows none, and the database syncs by itself: see `prepare`. */
  #open(): number | undefined {
    try {
      this.#fd ??= openSync(`${this.#file}-wal`, 'r')
    } catch (error) {
      if (errno(error) !== 'ENOENT') throw error
    }
    return this.#fd
  }
}
