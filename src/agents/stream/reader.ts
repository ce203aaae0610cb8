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
  /** The name of the stream: `stdout` or `stderr`. */
  readonly stream: string
  readonly path: string
  /** The byte position at which reading continues. */
  readonly offset: number
  readonly parse: (line: string) => Parsed
  /** Reading stops after this many bytes. */
  readonly limitBytes: number
  /** The most messages of the whole agent, over both streams. */
  readonly limitMessages: number
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

const chunk = Buffer.allocUnsafe(256 * 1_024)

/**
 * The most lines of one read. Without this limit, one chunk of newlines would give 262,144 messages, and saving them would block
 * the event loop.
 */
const maxLinesPerRead = 4_000

/** Reads a log from an offset on. The log is opened once: archiving moves the file, and an open descriptor stays valid. */
export class LogReader {
  readonly source: Source
  readonly #lines: LineCutter
  #fd: number | undefined
  #savedOffset: number
  #isWriterGone = false
  /** True when the reader will return no more lines. */
  isFinished = false
  /** True when the log is larger than the limit. The size of the file shows this before reading reaches the limit. */
  isOverLimit = false
  #hasReachedMessageLimit = false
  #isCut = false
  #failure: unknown
  /** Why the path of the log was refused. The first `read` throws this error, like any other failure. */
  #refusal: EbbError | undefined
  readonly #finished = Promise.withResolvers<void>()
  /** Resolves when every line within the limits is saved; rejects when one cannot be. */
  readonly finished = this.#finished.promise

  constructor(source: Source) {
    this.source = source
    // Swallowed: `finished` may reject before `Stream.finish` awaits it, and that await reports the failure.
    this.finished.catch(() => {})
    this.#lines = new LineCutter(source.offset)
    this.#savedOffset = source.offset
    try {
      this.#fd = openForReading(source.path)
    } catch (error) {
      if (!isEbbError(error, 'path_refused')) throw error
      this.#refusal = error
    }
    // An offset past the limit means that an earlier supervisor read up to the limit and saved the message that says so.
    if (source.offset > source.limitBytes) this.end()
  }

  /** Records that the writer is gone, so that the log does not grow any more. */
  endOfWriting(): void {
    this.#isWriterGone = true
  }

  /** Stops reading, because the agent has reached its message limit. */
  stopAtMessageLimit(): void {
    this.#hasReachedMessageLimit = true
  }

  /** Returns the next lines, `more` inside a long line, and undefined at the current end of the log. */
  read(): Progress | 'more' | undefined {
    if (this.isFinished) return undefined
    if (this.#refusal) throw this.#refusal
    this.isOverLimit ||= this.#hasReachedMessageLimit || this.#sizeBytes() > this.source.limitBytes
    const bytes = this.#hasReachedMessageLimit ? 0 : this.#readChunk()
    const lines = bytes > 0 ? this.#lines.add(chunk.subarray(0, bytes), maxLinesPerRead) : []
    this.#isCut = this.isOverLimit && (this.#hasReachedMessageLimit || this.#lines.readOffset >= this.source.limitBytes)
    if (this.#isCut || (bytes === 0 && this.#isWriterGone)) {
      lines.push(...this.#lastLine())
      this.end()
    }
    if (lines.length > 0 || this.#isCut) return this.#progress(lines)
    return bytes > 0 ? 'more' : undefined
  }

  /** A last line without newline is read only when the writer is gone and cannot finish it. */
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
    // After a cut, the saved position is past the limit. It tells a later reader that the message about the limit is already saved.
    this.#savedOffset = this.#isCut ? limitBytes + 1 : this.#lines.lineOffset
    return { agentId, messages, position: { stream, from, to: this.#savedOffset }, ...(result && { result }) }
  }

  #cutNote(): MessageBody {
    const { stream, limitBytes, limitMessages } = this.source
    const limit = this.#hasReachedMessageLimit ? `${limitMessages} messages` : `${limitBytes} bytes`
    const content = `Ebb reads no more of ${stream}: the agent has written more than ${limit}.`
    return { type: 'system', content, metadata: { stream, truncated: true } }
  }

  #id(offset: number, part: number): string {
    return messageId(this.source.agentId, this.source.stream, offset, part)
  }

  /** Stops reading. `failure` says why not every line could be read and saved. */
  end(failure?: unknown): void {
    this.#failure ??= failure
    this.isFinished = true
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
  }

  /** Settles `finished` after the last save. */
  settle(): void {
    if (this.#failure === undefined) this.#finished.resolve()
    else this.#finished.reject(this.#failure)
  }

  /** Parses a line. When the provider throws, the line becomes a plain message, so that it is not lost. */
  #parse(line: string): Parsed {
    try {
      return this.source.parse(line)
    } catch {
      return { messages: [{ type: 'response', content: line }] }
    }
  }
}

/** Opens regular files only: an agent can put a symlink at the path, or a pipe, whose open(2) waits for a writer for ever. */
function openForReading(path: string): number | undefined {
  let fd: number
  try {
    fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    // ENOENT: the log was archived or deleted already, so nothing is left to read.
    if (errno(error) === 'ENOENT') return undefined
    // open(2) fails with ELOOP for a symlink, and with ENXIO for a socket.
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
  return new EbbError('path_refused', `The log ${path} was not read because it is not a regular file; check what is there, and remove it.`)
}

/** Records in the message's metadata that the line was cut or was not valid UTF-8. */
function noted(message: MessageBody, line: Line): MessageBody {
  if (line.isValidUtf8 && line.totalBytes === undefined) return message
  const metadata = {
    ...message.metadata,
    ...(line.totalBytes !== undefined && { truncated: true, totalBytes: line.totalBytes }),
    ...(!line.isValidUtf8 && { invalidUtf8: true }),
  }
  return { ...message, metadata }
}
