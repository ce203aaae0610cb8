import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Json } from './conversation.ts'

/** How the pieces of a stream stand in it. */
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

/** One JSON array, of which the elements come as they are said. */
export const array: Framing = {
  type: 'application/json',
  piece: (_name, data, isFirst) => `${isFirst ? '[' : ',\r\n'}${data}`,
  end: ']',
}

/** The way back to one client: JSON, or a stream. */
export class Outlet {
  /** Chosen before the first piece. */
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

  /** The headers alone: the client knows that it was heard. */
  open(): void {
    if (this.hasBegun) return
    this.#begin()
    this.#response.flushHeaders()
  }

  close(): void {
    this.#response.end(this.framing.end)
  }

  /** What was said before is with the kernel first, or the client would hear nothing at all. */
  async cut(): Promise<void> {
    // Nothing of our own: a client that reads lines takes a comment for a broken piece of the answer.
    if (this.hasBegun) await new Promise<void>((resolve) => this.#response.write('', () => resolve()))
    this.#response.destroy()
  }

  /** A client that does not read must not fill our memory. */
  async room(signal: AbortSignal): Promise<void> {
    if (this.#response.writableNeedDrain) await once(this.#response, 'drain', { signal })
  }

  #begin(): void {
    if (!this.hasBegun) this.#response.writeHead(200, { 'content-type': this.framing.type, 'cache-control': 'no-cache' })
  }
}
