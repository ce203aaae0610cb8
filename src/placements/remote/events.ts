import { joinedByReturn } from '../../core/ports/runner.ts'
import type { RunnerNews } from './ports.ts'

/**
 * Reads Server-Sent Events of a runner (WHATWG HTML, 9.2) from chunks. Output stays bytes, because an agent need not write UTF-8. A long
 * line is passed on in pieces, so that memory is bounded.
 */

const newline = 0x0a
const carriageReturn = 0x0d
const space = 0x20
/** A byte order mark in UTF-8. One at the start of a stream belongs to its encoding (WHATWG HTML, 9.2.5: UTF-8 decode). */
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf])
const field = Buffer.from('data:')
const joined = Buffer.from(joinedByReturn)
const returned = Buffer.from('\r')
const ended = Buffer.from('\n')

/** How much of an event is kept until its end. The longest event that is not output, `event: complete`, needs far less. */
const mostKeptBytes = 65_536

/** How many parts of an event are kept until its end. Empty lines of data have no bytes, but each part takes memory. */
const mostKeptParts = 1_024

export class EventReader {
  /** The unfinished line. */
  #line: Buffer[] = []
  #lineBytes = 0
  /** The output of the current event, ready to be passed on. */
  #output: Buffer[] = []
  #outputBytes = 0
  #hasData = false
  #isJoined = false
  #name = ''
  /**
   * Set while a line is too long to be kept. The beginning of such a line was passed on as output or ignored, and its rest is treated the
   * same.
   */
  #longLine: 'output' | 'ignored' | undefined
  /** True when the last byte was a carriage return. A newline after it belongs to the same line end. */
  #afterReturn = false
  #isFirstLine = true

  /** Reads one chunk and returns the events in it that are complete. The output of several events is joined. */
  add(chunk: Uint8Array): readonly RunnerNews[] {
    const news: RunnerNews[] = []
    const out: Buffer[] = []
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    let from = 0
    if (this.#afterReturn && bytes[0] === newline) from = 1
    if (bytes.length > 0) this.#afterReturn = false
    while (from < bytes.length) {
      const end = lineEnd(bytes, from)
      this.#keep(bytes.subarray(from, end < 0 ? bytes.length : end), out)
      if (end < 0) break
      from = end + 1
      if (bytes[end] === carriageReturn && bytes[from] === newline) from += 1
      else this.#afterReturn = bytes[end] === carriageReturn && from === bytes.length
      const ending = this.#endOfLine(out)
      if (ending) news.push(...flushed(out), ending)
    }
    news.push(...flushed(out))
    return news.length > 0 ? news : [{ is: 'ping' }]
  }

  /**
   * True when the current event is output of the agent. An event without a name is a `message` (WHATWG HTML, 9.2.6); events with other
   * names are not output.
   */
  get #isOutput(): boolean {
    return this.#name === '' || this.#name === 'message'
  }

  /** Appends a part of a line to the unfinished line. The bytes are copied, because the memory of the chunk may be reused. */
  #keep(part: Buffer, out: Buffer[]): void {
    if (part.length === 0) return
    if (this.#longLine === 'output') out.push(Buffer.from(part))
    if (this.#longLine) return
    this.#line.push(Buffer.from(part))
    this.#lineBytes += part.length
    if (this.#lineBytes <= mostKeptBytes) return
    const line = this.#takeLine()
    // A line over the limit that is not data of an output event is ignored, because no known field is that long.
    this.#longLine = this.#isOutput && isData(line) ? 'output' : 'ignored'
    if (this.#longLine === 'ignored') return
    this.#beginData()
    out.push(...this.#output, valueIn(line))
    this.#forgetOutput()
  }

  #endOfLine(out: Buffer[]): RunnerNews | undefined {
    if (this.#longLine) {
      this.#longLine = undefined
      return undefined
    }
    const line = this.#takeLine()
    if (line.length === 0) return this.#dispatch(out)
    if (line.equals(joined)) this.#isJoined = true
    else if (isData(line)) {
      this.#beginData()
      this.#keepData(valueIn(line))
      if (this.#output.length > mostKeptParts || this.#outputBytes > mostKeptBytes) {
        if (this.#isOutput) out.push(...this.#output)
        this.#forgetOutput()
      }
    } else if (line.subarray(0, 6).toString('latin1') === 'event:') this.#name = line.subarray(6).toString('utf8').trim()
    return undefined
  }

  /**
   * Begins a further line of data. When the event has data already, the line end that the agent wrote between the two lines is restored.
   */
  #beginData(): void {
    if (this.#hasData) this.#keepData(this.#isJoined ? returned : ended)
    this.#hasData = true
    this.#isJoined = false
  }

  #keepData(part: Buffer): void {
    this.#output.push(part)
    this.#outputBytes += part.length
  }

  #dispatch(out: Buffer[]): RunnerNews | undefined {
    const name = this.#name
    const isOutput = this.#isOutput
    const hasData = this.#hasData
    const output = this.#isJoined ? [...this.#output, returned] : this.#output
    this.#name = ''
    this.#hasData = false
    this.#isJoined = false
    this.#forgetOutput()
    if (name === 'complete') return { is: 'complete' }
    if (name === 'error') return { is: 'error', message: messageIn(Buffer.concat(output).toString('utf8')) }
    if (hasData && isOutput) out.push(...output, ended)
    return undefined
  }

  #takeLine(): Buffer {
    const line = this.#line.length === 1 ? (this.#line[0] as Buffer) : Buffer.concat(this.#line)
    this.#line = []
    this.#lineBytes = 0
    const isMarked = this.#isFirstLine && line.subarray(0, byteOrderMark.length).equals(byteOrderMark)
    this.#isFirstLine = false
    return isMarked ? line.subarray(byteOrderMark.length) : line
  }

  #forgetOutput(): void {
    this.#output = []
    this.#outputBytes = 0
  }
}

function lineEnd(bytes: Buffer, from: number): number {
  const lf = bytes.indexOf(newline, from)
  const cr = bytes.subarray(from, lf < 0 ? bytes.length : lf).indexOf(carriageReturn)
  return cr < 0 ? lf : from + cr
}

function isData(line: Buffer): boolean {
  return line.subarray(0, field.length).equals(field) || line.equals(field.subarray(0, 4))
}

/** The value of a field, without the one space after the colon that belongs to the format. */
function valueIn(line: Buffer): Buffer {
  const value = line.subarray(field.length)
  return value[0] === space ? value.subarray(1) : value
}

function flushed(out: Buffer[]): readonly RunnerNews[] {
  if (out.length === 0) return []
  const bytes = Buffer.concat(out)
  out.length = 0
  return bytes.length === 0 ? [] : [{ is: 'output', bytes }]
}

/** The maximum length of an error message; longer ones are truncated. */
const longestMessage = 2_000

function messageIn(text: string): string {
  try {
    const { error } = JSON.parse(text) as { readonly error?: unknown }
    return (typeof error === 'string' ? error : text).slice(0, longestMessage)
  } catch {
    return text.slice(0, longestMessage)
  }
}
