import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdirSync, mkdtempSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The folders of one measurement. The program runs below a folder whose name contains the mark. So the mark is in its HOME, its TMPDIR and its
 * working directory, even when the program clears its environment. Folders that a way needs for itself (a server's home, a socket) are
 * beside it and do not contain the mark.
 */
export class Place implements Disposable {
  readonly base: string
  readonly mark: string
  readonly home: string
  readonly temp: string
  readonly work: string
  /** A folder for the files of the way to stop the program, such as the home of a server. */
  readonly own: string
  /** The temp folders that are searched for leftovers: that of the program, and that of a server that runs it. */
  readonly tempFolders: string[]
  /** A pipe for the standard input of the program. It stays open until the place is disposed. */
  readonly input: string
  readonly leashPath: string
  readonly #input: number
  readonly #leash: number

  constructor(base: string, mark: string) {
    this.base = base
    this.mark = mark
    const marked = join(base, mark)
    this.home = join(marked, 'home')
    this.temp = join(marked, 'tmp')
    this.work = join(marked, 'work')
    this.own = mkdtempSync(join(base, 'own-'))
    for (const folder of [this.home, this.temp, this.work]) mkdirSync(folder, { recursive: true })
    this.tempFolders = [this.temp]
    this.input = join(marked, 'input')
    this.leashPath = join(marked, 'leash')
    execFileSync('mkfifo', [this.input, this.leashPath])
    this.#input = openSync(this.input, constants.O_RDWR)
    this.#leash = openSync(this.leashPath, constants.O_RDONLY | constants.O_NONBLOCK)
  }

  /** The descriptor of a pipe to which no process writes: a program that reads it as standard input blocks until the program is ended. */
  get inputDescriptor(): number {
    return this.#input
  }

  /**
   * Whether a process has the leash, a named pipe, open for writing. Then a read of the pipe fails with EAGAIN. Without a writer the read
   * returns the end of the file.
   */
  isLeashHeld(): boolean {
    try {
      return readSync(this.#leash, Buffer.alloc(1)) > 0
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return true
      throw error
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.#input)
    closeSync(this.#leash)
  }
}
