import { isUtf8 } from 'node:buffer'

/** A line of a growing log, cut from the chunks that were read. */
export interface Line {
  readonly text: string
  /** The position of the line's first byte in the log. */
  readonly offset: number
  /** The full length of a line that was cut; absent when the whole line is in `text`. */
  readonly totalBytes?: number
  readonly isValidUtf8: boolean
}

/** The maximum length of a line. A longer line is cut and marked as cut, so that one agent cannot fill the supervisor's memory. */
const longestLineBytes = 1_048_576
const newline = 0x0a

export class LineCutter {
  /** The position of the first byte of the unfinished line. */
  #lineOffset: number
  #readOffset: number
  readonly #longestBytes: number
  #parts: Buffer[] = []
  #keptBytes = 0

  constructor(offset: number, longestBytes = longestLineBytes) {
    this.#lineOffset = offset
    this.#readOffset = offset
    this.#longestBytes = longestBytes
  }

  /** The position from which the next chunk must be read. */
  get readOffset(): number {
    return this.#readOffset
  }

  /** The position after the last complete line that was returned. */
  get lineOffset(): number {
    return this.#lineOffset
  }

  /** Cuts a chunk into lines and returns at most `mostLines`. The rest of the chunk is not consumed: `readOffset` stops before it. */
  add(chunk: Buffer, mostLines = Number.POSITIVE_INFINITY): Line[] {
    const lines: Line[] = []
    let from = 0
    for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
      if (lines.length === mostLines) return lines
      lines.push(this.#finish(chunk.subarray(from, at)))
      this.#readOffset += at + 1 - from
      this.#lineOffset = this.#readOffset
      from = at + 1
    }
    if (from < chunk.length) this.#keep(chunk.subarray(from))
    return lines
  }

  /** Returns the text after the last newline. Call it only when the log cannot grow any more. */
  rest(): Line | undefined {
    if (this.#readOffset === this.#lineOffset) return undefined
    const line = this.#finish(Buffer.alloc(0))
    this.#lineOffset = this.#readOffset
    return line
  }

  #keep(bytes: Buffer): void {
    this.#readOffset += bytes.length
    const room = this.#longestBytes - this.#keptBytes
    if (room <= 0) return
    // The part of the line is copied, because the caller reuses the chunk's memory for the next read.
    this.#parts.push(Buffer.from(bytes.subarray(0, room)))
    this.#keptBytes += Math.min(bytes.length, room)
  }

  #finish(last: Buffer): Line {
    const totalBytes = this.#readOffset - this.#lineOffset + last.length
    const bytes = this.#parts.length === 0 ? last.subarray(0, this.#longestBytes) : this.#joined(last)
    this.#parts = []
    this.#keptBytes = 0
    return {
      text: bytes.toString('utf8'),
      offset: this.#lineOffset,
      isValidUtf8: isUtf8(bytes) || totalBytes > this.#longestBytes,
      ...(totalBytes > this.#longestBytes && { totalBytes }),
    }
  }

  #joined(last: Buffer): Buffer {
    return Buffer.concat([...this.#parts, last.subarray(0, Math.max(0, this.#longestBytes - this.#keptBytes))])
  }
}
