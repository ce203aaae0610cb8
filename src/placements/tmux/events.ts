import { constants, readFileSync } from 'node:fs'
import { Socket } from 'node:net'
import { errno } from '../../core/model/errors.ts'
import type { Effects, Exit } from '../../core/ports/effects.ts'

/** What a pane tells us of its agent, through a pipe that outlives us: whoever comes next reads on. */
export interface PaneEvents {
  /** It waits for its orders. */
  readonly ready: Promise<void>
  /** The pids of those who write its two logs. */
  readonly collectors: Promise<readonly [number, number]>
  /** The agent is behind its doors. Rejects when the pane ends before. */
  readonly pid: Promise<number>
  /** Its exit, as the shell in the pane saw it; of one that nobody saw, neither code nor signal. */
  readonly exit: Promise<Exit>
  /** The session was ended from outside, and the agent may live on. */
  readonly lost: Promise<void>
  /** Nobody is left in the pane. */
  readonly over: Promise<void>
  close(): void
}

const unseen: Exit = { code: null, signal: null }

/**
 * Opened before there is a pane, the pipe would say at once that nobody is left who could write: then it is opened for
 * writing too, until the pane has said that it is there.
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
    for (const promise of [this.ready, this.collectors, this.pid]) promise.catch(() => {})
  }

  /** Before there is a pane. */
  await(): void {
    this.#open(constants.O_RDWR)
  }

  /** Of a pane that is there, or was. */
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
    // A wait for somebody else's end must not keep us alive.
    socket.unref()
    socket.on('data', (chunk: Buffer) => this.#hear(chunk.toString('latin1')))
    socket.on('error', () => {})
    socket.on('close', () => {
      if (this.#socket === socket) this.#end()
    })
    before?.destroy()
  }

  #hear(chunk: string): void {
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

  /** There may be no descriptor left: then it is a launch that fails, and nothing else. */
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
    this.#exit.resolve(readExit(this.#exitFile) ?? unseen)
    this.#isOver = true
    this.#over.resolve()
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Nobody is there any more; what is known of them is on the disk. */
  finish(): void {
    this.#end()
    this.close()
  }

  close(): void {
    this.#socket?.destroy()
  }
}

/** Written by rename: it is whole, or it is not there. */
export function readExit(file: string): Exit | undefined {
  try {
    const code = Number.parseInt(readFileSync(file, 'utf8'), 10)
    return Number.isNaN(code) ? undefined : { code, signal: null }
  } catch {
    return undefined
  }
}
