import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Json } from './conversation.ts'

/** How a stream separates its pieces. */
interface Framing {
  readonly type: string
  piece(name: string | undefined, data: string, isFirst: boolean): string
  readonly end: string
}

const events: Framing = {
  type: 'text/event-stream',
  piece: (name, data) => `${name === undefined ? '' : `event: ${name}\n`}data: ${data}\n\n`,
  end: '',
}

/** One JSON array, whose elements are sent one by one. */
export const array: Framing = {
  type: 'application/json',
  piece: (_name, data, isFirst) => `${isFirst ? '[' : ',\r\n'}${data}`,
  end: ']',
}

/** The response to one client: a JSON body or a stream. */
export class Outlet {
  /** How the stream separates its pieces. Must be set before the first piece is sent. */
  framing = events
  readonly #response: ServerResponse
  #isFirst = true

  constructor(response: ServerResponse) {
    this.#response = response
  }

  get hasBegun(): boolean {
    return this.#response.headersSent
  }

  json(status: number, body: Json, headers: Readonly<Record<string, string>> = {}): void {
    this.#response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
  }

  event(name: string | undefined, data: Json | string): void {
    this.#begin()
    this.#response.write(this.framing.piece(name, typeof data === 'string' ? data : JSON.stringify(data), this.#isFirst))
    this.#isFirst = false
  }

  /** Sends the headers only, so that the client knows that its request has arrived. */
  open(): void {
    if (this.hasBegun) return
    this.#begin()
    this.#response.flushHeaders()
  }

  close(): void {
    this.#response.end(this.framing.end)
  }

  /** Breaks the connection. The data written before is handed to the kernel first; otherwise the client would receive none of it. */
  async cut(): Promise<void> {
    // The callback of an empty write tells when the data is handed to the kernel. Nothing is written, because a client that reads lines
    // would take a comment for a damaged piece of the answer.
    if (this.hasBegun) await new Promise<void>((resolve) => this.#response.write('', () => resolve()))
    this.#response.destroy()
  }

  /** Waits until the response can take more data. Without the wait, output for a client that does not read would fill the memory. */
  async room(signal: AbortSignal): Promise<void> {
    if (this.#response.writableNeedDrain) await once(this.#response, 'drain', { signal })
  }

  #begin(): void {
    if (!this.hasBegun) this.#response.writeHead(200, { 'content-type': this.framing.type, 'cache-control': 'no-cache' })
  }
}
