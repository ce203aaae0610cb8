import { joinedByReturn, type RunnerNews } from '../../core/ports/runner.ts'

/**
 * Server-Sent Events as a runner sends them (WHATWG HTML, 9.2), cut from the chunks that come. Bytes stay bytes: what an
 * agent writes need not be UTF-8. What is longer than may be kept is passed on in pieces, so no line fills our memory.
 */

const newline = 0x0a
const carriageReturn = 0x0d
const space = 0x20
const field = Buffer.from('data:')
const joined = Buffer.from(joinedByReturn)

/** So much of an event is kept until its end tells what it is; nobody needs more for `event: complete`. */
const mostKeptBytes = 65_536

export class EventReader {
  /** The line that is not finished yet. */
  #line: Buffer[] = []
  #lineBytes = 0
  /** What the event has said so far: its output, ready to be passed on. */
  #output: Buffer[] = []
  #outputBytes = 0
  #hasData = false
  #isJoined = false
  #name = ''
  /** The beginning of a line that is too long to be kept was passed on, or ignored: so is the rest of it. */
  #longLine: 'output' | 'ignored' | undefined
  /** A carriage return was the last byte: a newline after it belongs to it. */
  #afterReturn = false

  /** What the chunk told. Output of several events in one piece. */
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

  /** `message` is the name of an event that says none (WHATWG HTML, 9.2.6). Of another name: nothing that the agent wrote. */
  get #isOutput(): boolean {
    return this.#name === '' || this.#name === 'message'
  }

  /** A copy: the chunk's memory may be used again. */
  #keep(part: Buffer, out: Buffer[]): void {
    if (part.length === 0) return
    if (this.#longLine === 'output') out.push(Buffer.from(part))
    if (this.#longLine) return
    this.#line.push(Buffer.from(part))
    this.#lineBytes += part.length
    if (this.#lineBytes <= mostKeptBytes) return
    const line = this.#takeLine()
    // A field that is no output, and longer than any that we know, says nothing to us.
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
      const value = valueIn(line)
      this.#output.push(value)
      this.#outputBytes += value.length
      if (this.#outputBytes > mostKeptBytes) {
        if (this.#isOutput) out.push(...this.#output)
        this.#forgetOutput()
      }
    } else if (line.subarray(0, 6).toString('latin1') === 'event:') this.#name = line.subarray(6).toString('utf8').trim()
    return undefined
  }

  /** Between two lines of one event stands what stood there when the agent wrote them. */
  #beginData(): void {
    if (this.#hasData) this.#output.push(Buffer.from(this.#isJoined ? '\r' : '\n'))
    this.#hasData = true
    this.#isJoined = false
  }

  #dispatch(out: Buffer[]): RunnerNews | undefined {
    const name = this.#name
    const isOutput = this.#isOutput
    const hasData = this.#hasData
    const output = this.#isJoined ? [...this.#output, Buffer.from('\r')] : this.#output
    this.#name = ''
    this.#hasData = false
    this.#isJoined = false
    this.#forgetOutput()
    if (name === 'complete') return { is: 'complete' }
    if (name === 'error') return { is: 'error', message: messageIn(Buffer.concat(output).toString('utf8')) }
    if (hasData && isOutput) out.push(...output, Buffer.from('\n'))
    return undefined
  }

  #takeLine(): Buffer {
    const line = this.#line.length === 1 ? (this.#line[0] as Buffer) : Buffer.concat(this.#line)
    this.#line = []
    this.#lineBytes = 0
    return line
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

/** One space after the colon belongs to the format. */
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

/** Longer ones are nobody's sentence. */
const longestMessage = 2_000

function messageIn(text: string): string {
  try {
    const { error } = JSON.parse(text) as { readonly error?: unknown }
    return (typeof error === 'string' ? error : text).slice(0, longestMessage)
  } catch {
    return text.slice(0, longestMessage)
  }
}
