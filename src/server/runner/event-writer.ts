import { joinedByReturn } from '../../core/ports/runner.ts'

/**
 * Raw output as Server-Sent Events, one event per line, byte for byte. A carriage return ends a line of SSE (WHATWG HTML, 9.2.5),
 * so what stands after one is a further `data` line of the same event, with a comment between them for those who want the very
 * bytes back. After the return of a CRLF nothing stands: clients that keep an event's last `data` line would keep an empty one.
 */

const newline = 0x0a
const carriageReturn = 0x0d
const data = Buffer.from('data: ')
const lineEnd = Buffer.from('\n\n')
const returned = Buffer.from(`\n${joinedByReturn}`)
const again = Buffer.from('\ndata: ')

/** A line is sent when it is complete; of a longer one its parts are, as they come. */
const mostHeldBytes = 65_536

export class EventWriter {
  #held: Buffer[] = []
  #heldBytes = 0
  /** A part of a long line was sent, and its end was not. */
  #isOpen = false
  /** The last that was sent of this line is a carriage return. */
  #hasReturned = false

  /** Nothing else may be sent in the middle of an event. */
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

  /** What came after the last newline: nothing more comes. */
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

  /** An empty line is an event too. */
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

/** A comment: clients ignore it, and the kernel waits for its acknowledgement. */
export const ping = ': ping\n\n'
