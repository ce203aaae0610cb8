import type { Socket } from 'socket.io'
import { noop } from '../../core/engine/race.ts'

/**
 * The limit up to which live messages are queued for one client. While more waits for the client, its messages are read from the store
 * later, at the client's own pace.
 */
const mostPackets = 8_192
const mostBytes = 4 * 1_048_576

/**
 * The limit for everything that waits to be sent to one client. A client above this limit is disconnected. Broadcasts and answers count
 * too: they cannot be read from the store later, so they are always queued.
 */
const mostPacketsEver = 20_000
const mostBytesEver = 64 * 1_048_576

/**
 * Counts what waits to be sent to one client. The counts follow the events of its connection: `drain` means that the whole buffer
 * was passed on.
 */
export class Outbox {
  readonly #socket: Socket
  #packets = 0
  #bytes = 0
  #turns: Promise<void> = Promise.resolve()

  constructor(socket: Socket) {
    this.#socket = socket
    socket.conn.on('packetCreate', ({ data }: { readonly data?: unknown }) => {
      this.#packets += 1
      this.#bytes += typeof data === 'string' ? data.length : 0
      // The limit is checked in the next tick, because a packet that the connection takes at once does not wait to be sent.
      if (this.#isFull) process.nextTick(() => this.#isFull && socket.disconnect(true))
    })
    socket.conn.on('drain', () => {
      this.#packets = 0
      this.#bytes = 0
    })
  }

  get #isFull(): boolean {
    return this.#packets > mostPacketsEver || this.#bytes > mostBytesEver
  }

  get hasRoom(): boolean {
    return this.#packets < mostPackets && this.#bytes < mostBytes
  }

  /** Runs `work` when the client has room, or is gone. Calls run one after another: together they would exceed the limit many times. */
  turn(work: () => Promise<void>): Promise<void> {
    const turn = this.#turns.then(async () => {
      await this.#room()
      await work()
    })
    this.#turns = turn.catch(noop) // Swallowed: the caller handles the error of its work, and the next work runs all the same.
    return turn
  }

  #room(): Promise<void> {
    if (this.hasRoom || !this.#socket.connected) return Promise.resolve()
    const { conn } = this.#socket
    return new Promise((resolve) => {
      const done = (): void => {
        conn.off('drain', done)
        conn.off('close', done)
        resolve()
      }
      conn.on('drain', done)
      conn.on('close', done)
    })
  }
}
