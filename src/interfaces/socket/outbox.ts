import type { Socket } from 'socket.io'

/** So much may wait for a client; one that is slower reads the rest from the store, at its own pace. */
const mostPackets = 8_192
const mostBytes = 4 * 1_048_576

/** What waits to be sent to one client, counted by the connection's own events: `drain` hands the whole buffer on. */
export class Outbox {
  readonly #socket: Socket
  #packets = 0
  #bytes = 0

  constructor(socket: Socket) {
    this.#socket = socket
    socket.conn.on('packetCreate', ({ data }: { readonly data?: unknown }) => {
      this.#packets += 1
      this.#bytes += typeof data === 'string' ? data.length : 0
    })
    socket.conn.on('drain', () => {
      this.#packets = 0
      this.#bytes = 0
    })
  }

  get packets(): number {
    return this.#packets
  }

  get hasRoom(): boolean {
    return this.#packets < mostPackets && this.#bytes < mostBytes
  }

  /** Settles when the client has taken what was waiting, or is gone. */
  room(): Promise<void> {
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
