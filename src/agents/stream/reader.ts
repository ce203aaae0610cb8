import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { EbbError, errno, isEbbError } from '../../core/model/errors.ts'
import type { MessageBody } from '../../core/model/message.ts'
import type { NewMessage, Progress } from '../../core/ports/agents.ts'
import type { Parsed } from '../../core/ports/provider.ts'
import { type Line, LineCutter } from './lines.ts'
import { messageId } from './message-id.ts'

/** One output stream of one agent. */
export interface Source {
  readonly agentId: string
  /** `stdout` or `stderr`. */
  readonly stream: string
  readonly path: string
  /** Where the reading goes on. */
  readonly offset: number
  readonly parse: (line: string) => Parsed
  /** More than this is not read. */
  readonly limitBytes: number
  /** Of the whole agent. */
  readonly limitMessages: number
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

const chunk = Buffer.allocUnsafe(256 * 1_024)

/** A chunk of newlines would be a quarter of a million messages, and a save that stops the world. */
const linesAtOnce = 4_000

/** Reads a log from an offset on. It is opened once: an archive moves the file, but an open descriptor stays with it. */
export class LogReader {
  readonly source: Source
  readonly #lines: LineCutter
  #fd: number | undefined
  #savedOffset: number
  #isWriterGone = false
  /** Nothing more will come of it. */
  isOver = false
  /** More was written than may be read; known from the size of the log, long before the reading gets there. */
  isTooMuch = false
  #hasEnough = false
  #isCut = false
  #failure: unknown
  /** Why what is at its place is not read: told by the first read, as any other failure is. */
  #refusal: EbbError | undefined
  readonly #over = Promise.withResolvers<void>()
  /** Resolves when all that may be read is saved; rejects when it cannot be. */
  readonly over = this.#over.promise

  constructor(source: Source) {
    this.source = source
    this.over.catch(() => {}) // It may fail before anybody waits for it.
    this.#lines = new LineCutter(source.offset)
    this.#savedOffset = source.offset
    try {
      this.#fd = openForReading(source.path)
    } catch (error) {
      if (!isEbbError(error, 'path_refused')) throw error
      this.#refusal = error
    }
    // An earlier life of ours has read all that may be read, and said so.
    if (source.offset > source.limitBytes) this.end()
  }

  /** The writer is gone: what is there now is all there will be. */
  endOfWriting(): void {
    this.#isWriterGone = true
  }

  /** There are as many messages as there may be. */
  enough(): void {
    this.#hasEnough = true
  }

  /** The next lines, if there are any; `more` in the middle of a long line; undefined at the end of what was written so far. */
  read(): Progress | 'more' | undefined {
    if (this.isOver) return undefined
    if (this.#refusal) throw this.#refusal
    this.isTooMuch ||= this.#hasEnough || this.#sizeBytes() > this.source.limitBytes
    const bytes = this.#hasEnough ? 0 : this.#readChunk()
    const lines = bytes > 0 ? this.#lines.add(chunk.subarray(0, bytes), linesAtOnce) : []
    this.#isCut = this.isTooMuch && (this.#hasEnough || this.#lines.readOffset >= this.source.limitBytes)
    if (this.#isCut || (bytes === 0 && this.#isWriterGone)) {
      lines.push(...this.#lastLine())
      this.end()
    }
    if (lines.length > 0 || this.#isCut) return this.#progress(lines)
    return bytes > 0 ? 'more' : undefined
  }

  /** The last line may lack its end; it is read only when nobody can write that end any more. */
  #lastLine(): readonly Line[] {
    const rest = this.#lines.rest()
    return rest ? [rest] : []
  }

  #sizeBytes(): number {
    return this.#fd === undefined ? 0 : fstatSync(this.#fd).size
  }

  #readChunk(): number {
    if (this.#fd === undefined) return 0
    const room = Math.max(0, this.source.limitBytes - this.#lines.readOffset)
    return readSync(this.#fd, chunk, 0, Math.min(chunk.length, room), this.#lines.readOffset)
  }

  #progress(lines: readonly Line[]): Progress {
    const messages: NewMessage[] = []
    let result: Progress['result']
    for (const line of lines) {
      const parsed = this.#parse(line.text)
      result = parsed.result ?? result
      messages.push(...parsed.messages.map((message, part) => ({ ...noted(message, line), id: this.#id(line.offset, part) })))
    }
    const { agentId, stream, limitBytes } = this.source
    if (this.#isCut) messages.push({ ...this.#cutNote(), id: this.#id(limitBytes, -1) })
    const from = this.#savedOffset
    // Behind everything that may be read: whoever comes next knows that it was said.
    this.#savedOffset = this.#isCut ? limitBytes + 1 : this.#lines.lineOffset
    return { agentId, messages, position: { stream, from, to: this.#savedOffset }, ...(result && { result }) }
  }

  #cutNote(): MessageBody {
    const { stream, limitBytes, limitMessages } = this.source
    const much = this.#hasEnough ? `${limitMessages} messages` : `${limitBytes} bytes`
    const content = `Ebb reads no more of ${stream}: the agent has written more than ${much}.`
    return { type: 'system', content, metadata: { stream, truncated: true } }
  }

  #id(offset: number, part: number): string {
    return messageId(this.source.agentId, this.source.stream, offset, part)
  }

  /** With a failure when not all of it could be read and saved. */
  end(failure?: unknown): void {
    this.#failure ??= failure
    this.isOver = true
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
  }

  /** Of what was read, everything is saved that will be. */
  settle(): void {
    if (this.#failure === undefined) this.#over.resolve()
    else this.#over.reject(this.#failure)
  }

  /** A provider that stumbles over a line loses its meaning, not the line. */
  #parse(line: string): Parsed {
    try {
      return this.source.parse(line)
    } catch {
      return { messages: [{ type: 'response', content: line }] }
    }
  }
}

/** A file and nothing else: the agent may have put a link at the place, or a pipe, whose open would wait for ever for a writer. */
function openForReading(path: string): number | undefined {
  let fd: number
  try {
    fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    // Archived or deleted already: then there is nothing left to read.
    if (errno(error) === 'ENOENT') return undefined
    // A link, and a socket.
    if (errno(error) === 'ELOOP' || errno(error) === 'ENXIO') throw refused(path)
    throw error
  }
  try {
    if (!fstatSync(fd).isFile()) throw refused(path)
    return fd
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

function refused(path: string): EbbError {
  return new EbbError('path_refused', `The log ${path} is not read: what is at its place is not a file; look at it, and remove it.`)
}

/** What had to be done to a line so that it could be kept is said with it. */
function noted(message: MessageBody, line: Line): MessageBody {
  if (line.isValidUtf8 && line.totalBytes === undefined) return message
  const metadata = {
    ...message.metadata,
    ...(line.totalBytes !== undefined && { truncated: true, totalBytes: line.totalBytes }),
    ...(!line.isValidUtf8 && { invalidUtf8: true }),
  }
  return { ...message, metadata }
}
