import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Json } from './conversation.ts'

/** The way back to one client: JSON, or a stream of events. */
export class Outlet {
  readonly #response: ServerResponse

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
    if (!this.hasBegun) this.#response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
    const named = name === undefined ? '' : `event: ${name}\n`
    this.#response.write(`${named}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`)
  }

  /** The headers alone: the client knows that it was heard. */
  open(): void {
    if (this.hasBegun) return
    this.#response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' }).flushHeaders()
  }

  close(): void {
    this.#response.end()
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
}
