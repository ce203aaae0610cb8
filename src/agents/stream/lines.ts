import { isUtf8 } from 'node:buffer'

/** Lines of a growing log, cut from the chunks that are read; each knows where in the log it began. */
export interface Line {
  readonly text: string
  /** Of its first byte in the log. */
  readonly offset: number
  /** Set when it was longer than what is kept. */
  readonly totalBytes?: number
  readonly isValidUtf8: boolean
}

/** A longer line is cut, and said to be: one agent must not fill our memory. */
const longestLineBytes = 1_048_576
const newline = 0x0a

export class LineCutter {
  /** Where the line that is not finished yet began. */
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

  /** Where the next chunk has to come from. */
  get readOffset(): number {
    return this.#readOffset
  }

  /** Everything before has been given out as lines. */
  get lineOffset(): number {
    return this.#lineOffset
  }

  /** So many lines at most: what is left of the chunk is not taken, and `readOffset` says so. */
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

  /** What comes after the last newline, once nothing more can come. */
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
    // A copy: the chunk's memory is used again for the next read.
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
