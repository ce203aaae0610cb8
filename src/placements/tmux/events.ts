import { constants, readFileSync } from 'node:fs'
import { Socket } from 'node:net'
import { errno } from '../../core/model/errors.ts'
import type { Effects, Exit } from '../../core/ports/effects.ts'

/** Events of a pane, read from a named pipe. The pipe outlives this process, so the next supervisor continues to read. */
export interface PaneEvents {
  /** Settles when the shell in the pane is ready to receive its orders. */
  readonly ready: Promise<void>
  /** The pids of the collectors, which write the two logs. */
  readonly collectors: Promise<readonly [number, number]>
  /** Settles with the pid of the agent when the agent is in its cgroup. Rejects when the pane ends before that. */
  readonly pid: Promise<number>
  /** The exit that the shell in the pane observed. When the shell observed none, neither code nor signal is set. */
  readonly exit: Promise<Exit>
  /** Settles when the session was killed from outside. The agent may still run. */
  readonly lost: Promise<void>
  /** Settles when no process is left in the pane. */
  readonly over: Promise<void>
  close(): void
}

const unknownExit: Exit = { code: null, signal: null }

/**
 * Reads the events of one pane. A pipe that is opened before its first writer reports the end at once, so it is opened for writing, too,
 * until the pane is ready.
 */
export class PaneListener implements PaneEvents {
  readonly #effects: Effects
  readonly #pipe: string
  readonly #exitFile: string
  readonly #ready = Promise.withResolvers<void>()
  readonly #collectors = Promise.withResolvers<readonly [number, number]>()
  readonly #pid = Promise.withResolvers<number>()
  readonly #exit = Promise.withResolvers<Exit>()
  readonly #lost = Promise.withResolvers<void>()
  readonly #over = Promise.withResolvers<void>()
  #socket: Socket | undefined
  #text = ''
  #isOver = false

  readonly ready = this.#ready.promise
  readonly collectors = this.#collectors.promise
  readonly pid = this.#pid.promise
  readonly exit = this.#exit.promise
  readonly lost = this.#lost.promise
  readonly over = this.#over.promise

  constructor(effects: Effects, pipe: string, exitFile: string) {
    this.#effects = effects
    this.#pipe = pipe
    this.#exitFile = exitFile
    // Swallowed: a launch awaits the promises of the first events, but an adopted pane needs none of them.
    for (const promise of [this.ready, this.collectors, this.pid]) promise.catch(() => {})
  }

  /** Opens the pipe before the pane exists. */
  await(): void {
    this.#open(constants.O_RDWR)
  }

  /** Opens the pipe of a pane that exists, or existed. */
  follow(): void {
    this.#open(constants.O_RDONLY)
  }

  #open(mode: number): void {
    const before = this.#socket
    let fd: number
    try {
      fd = this.#effects.openFile(this.#pipe, mode | constants.O_NONBLOCK)
    } catch (error) {
      if (errno(error) !== 'ENOENT') throw error
      this.#end()
      return
    }
    const socket = new Socket({ fd, readable: true, writable: false })
    this.#socket = socket
    // Waiting for the end of the pane must not keep this process alive.
    socket.unref()
    socket.on('data', (chunk: Buffer) => this.#read(chunk.toString('latin1')))
    // Swallowed: every error of the socket is followed by `close`, which ends the events.
    socket.on('error', () => {})
    socket.on('close', () => {
      if (this.#socket === socket) this.#end()
    })
    before?.destroy()
  }

  #read(chunk: string): void {
    const lines = (this.#text + chunk).split('\n')
    this.#text = lines.pop() ?? ''
    for (const line of lines) {
      const [, word, number, second] = /^(ready|collectors|pid|exit|lost) ?(\d*) ?(\d*)$/.exec(line) ?? []
      if (word === 'ready') this.#becomeReady()
      if (word === 'collectors') this.#collectors.resolve([Number(number), Number(second)])
      if (word === 'pid') this.#pid.resolve(Number(number))
      if (word === 'exit') this.#exit.resolve({ code: Number(number), signal: null })
      if (word === 'lost') this.#lost.resolve()
    }
  }

  /** Opens the pipe a second time, for reading only. When that fails, for example for lack of descriptors, only this launch fails. */
  #becomeReady(): void {
    try {
      this.follow()
      this.#ready.resolve()
    } catch (error) {
      this.#ready.reject(error)
    }
  }

  #end(): void {
    const problem = new Error('the pane ended before the agent had started')
    this.#ready.reject(problem)
    this.#collectors.reject(problem)
    this.#pid.reject(problem)
    this.#exit.resolve(readExit(this.#exitFile) ?? unknownExit)
    this.#isOver = true
    this.#over.resolve()
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Ends the events of a pane that has no processes left. The exit is read from the exit file. */
  finish(): void {
    this.#end()
    this.close()
  }

  close(): void {
    this.#socket?.destroy()
  }
}

/** Reads the exit file of a pane. The file is written by a rename, so it is complete or missing. */
export function readExit(file: string): Exit | undefined {
  try {
    const code = Number.parseInt(readFileSync(file, 'utf8'), 10)
    return Number.isNaN(code) ? undefined : { code, signal: null }
  } catch {
    return undefined
  }
}
