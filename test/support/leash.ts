import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { join } from 'node:path'

/**
 * A named pipe that every C fixture opens and passes down through fork and exec. The kernel knows whether any process holds it, so this
 * check does not depend on a process list.
 */
export class Leash implements Disposable {
  readonly path: string
  readonly #fd: number

  constructor(directory: string) {
    this.path = join(directory, 'leash')
    execFileSync('mkfifo', [this.path])
    this.#fd = openSync(this.path, constants.O_RDONLY | constants.O_NONBLOCK)
  }

  /** A read returns end of file when no process holds the other end, and fails with EAGAIN when one does. */
  isHeld(): boolean {
    try {
      return readSync(this.#fd, Buffer.alloc(1)) > 0
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return true
      throw error
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.#fd)
  }
}

/** The environment variable that holds the path of the pipe for fixtures. */
export const leashVariable = 'EBB_TEST_LEASH'
