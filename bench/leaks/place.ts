import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdirSync, mkdtempSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Where one measurement happens. The program lives below a folder that has the mark in its name, so the mark is in its
 * HOME, its TMPDIR and its working directory, whatever a program does with the rest of its environment. What a way needs
 * for itself (a server's home, a socket) is beside it and carries no mark.
 */
export class Place implements Disposable {
  readonly base: string
  readonly mark: string
  readonly home: string
  readonly temp: string
  readonly work: string
  /** For what a way needs itself. */
  readonly own: string
  /** Temp folders in which something may be left: the program's, and that of a server which runs it. */
  readonly tempFolders: string[]
  /** Its standard input, which stays open as long as we are here. */
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

  /** A program that reads its input waits there until it is ended. */
  get inputDescriptor(): number {
    return this.#input
  }

  /** The kernel's word for the fixtures that take hold of it: at its end a read finds nothing, and EAGAIN while somebody holds on. */
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
