import type { Socket } from 'socket.io'
import { noop } from '../../core/engine/race.ts'

/** So much may wait for a client; one that is slower reads the rest from the store, at its own pace. */
const mostPackets = 8_192
const mostBytes = 4 * 1_048_576

/** What cannot be read later, such as broadcasts and answers, may pile up so far; then nobody is listening. */
const mostPacketsEver = 20_000
const mostBytesEver = 64 * 1_048_576

/** What waits to be sent to one client, counted by the connection's own events: `drain` hands the whole buffer on. */
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
      // After it went its way: a connection that takes it at once has nothing waiting.
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

  /** Works when the client has room, or is gone; one at a time, or all who wait for the room would fill it many times over. */
  turn(work: () => Promise<void>): Promise<void> {
    const turn = this.#turns.then(async () => {
      await this.#room()
      await work()
    })
    this.#turns = turn.catch(noop)
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
