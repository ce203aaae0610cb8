import { joinedByReturn } from '../../core/ports/runner.ts'

/**
 * Writes raw output as Server-Sent Events, one event per line, byte for byte. A carriage return ends a line of SSE (WHATWG HTML,
 * 9.2.5), so the text after it is a further `data` line of the same event. A comment between the two lets a client restore the exact
 * bytes. The return of a CRLF has no `data` line after it: a client that keeps only the last `data` line would keep an empty one.
 */

const newline = 0x0a
const carriageReturn = 0x0d
const data = Buffer.from('data: ')
const lineEnd = Buffer.from('\n\n')
const returned = Buffer.from(`\n${joinedByReturn}`)
const again = Buffer.from('\ndata: ')

/** A line is sent when it is complete. A longer line is sent in parts, as they come. */
const mostHeldBytes = 65_536

export class EventWriter {
  #held: Buffer[] = []
  #heldBytes = 0
  /** True when a part of a long line was sent, but not its end. */
  #isOpen = false
  /** True when the last byte sent of the current line is a carriage return. */
  #hasReturned = false

  /** True between two events. A comment may be sent only there. */
  get isBetweenEvents(): boolean {
    return !this.#isOpen
  }

  add(chunk: Uint8Array): Buffer {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    const out: Buffer[] = []
    let from = 0
    for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, from)) {
      this.#hold(bytes.subarray(from, at))
      this.#send(out)
      out.push(lineEnd)
      this.#isOpen = false
      this.#hasReturned = false
      from = at + 1
    }
    this.#hold(bytes.subarray(from))
    if (this.#heldBytes > mostHeldBytes) this.#send(out)
    return Buffer.concat(out)
  }

  /** Returns the events for the text after the last newline, once the output has ended. */
  rest(): Buffer {
    const out: Buffer[] = []
    if (this.#heldBytes > 0) this.#send(out)
    if (this.#isOpen) out.push(lineEnd)
    this.#isOpen = false
    return Buffer.concat(out)
  }

  #hold(part: Buffer): void {
    if (part.length > 0) this.#held.push(part)
    this.#heldBytes += part.length
  }

  /** Sends the bytes that are held of a line. An empty line is sent as an event too. */
  #send(out: Buffer[]): void {
    if (!this.#isOpen) out.push(data)
    this.#isOpen = true
    for (const part of this.#held) this.#sendPart(part, out)
    this.#held = []
    this.#heldBytes = 0
  }

  #sendPart(part: Buffer, out: Buffer[]): void {
    for (let from = 0; from < part.length; ) {
      if (this.#hasReturned) out.push(again)
      const at = part.indexOf(carriageReturn, from)
      const end = at < 0 ? part.length : at
      out.push(part.subarray(from, end))
      this.#hasReturned = at >= 0
      if (this.#hasReturned) out.push(returned)
      from = end + 1
    }
  }
}

export function event(name: 'complete' | 'error', value: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(value)}\n\n`
}

/** A comment, sent as a ping. Clients ignore comments, but the kernel expects an acknowledgement of the sent bytes. */
export const ping = ': ping\n\n'
