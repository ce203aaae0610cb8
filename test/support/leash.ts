import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { join } from 'node:path'

/**
 * A named pipe that every fixture written in C takes hold of, and hands down through fork and exec. The kernel says
 * whether anybody holds it: no list of processes can be outrun or misread.
 */
export class Leash implements Disposable {
  readonly path: string
  readonly #fd: number

  constructor(directory: string) {
    this.path = join(directory, 'leash')
    execFileSync('mkfifo', [this.path])
    this.#fd = openSync(this.path, constants.O_RDONLY | constants.O_NONBLOCK)
  }

  /** A read finds the end of the file when nobody holds the other side, and nothing to read (EAGAIN) when somebody does. */
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

/** The environment by which a fixture finds it. */
export const leashVariable = 'EBB_TEST_LEASH'
