import type { FileHandle } from 'node:fs/promises'
import { errno } from '../../core/model/errors.ts'
import type { LogLines, LogQuery } from '../../core/ports/archives.ts'
import { openRegular } from '../../host/slow-effects.ts'
import { compressionOf, contentOfFile } from './content.ts'

/**
 * Reads lines of a log, live or archived. Positions count bytes of the uncompressed content, so they stay valid when the log moves to its
 * archive and when the archive is compressed. The last line of a live log is returned only when it is complete.
 */
export async function readLog(query: LogQuery): Promise<LogLines> {
  const found = await openLog(query)
  if (!found) return { lines: [], next: query.since ?? 0 }
  const { file, path } = found
  try {
    const window = new Window(query, await startOf(file, path, query))
    for await (const piece of contentOfFile(file, path, window.next)) if (!window.take(piece)) break
    if (path !== query.path) window.end()
    return window.result
  } finally {
    await file.close()
  }
}

/** Tries the paths in the order in which a log moves, so that a log that moves meanwhile is found at the next path. */
async function openLog({ path, archive }: LogQuery): Promise<{ readonly file: FileHandle; readonly path: string } | undefined> {
  for (const place of [path, archive, `${archive}.zst`, `${archive}.gz`]) {
    try {
      return { file: await openRegular(place), path: place }
    } catch (error) {
      if (errno(error) !== 'ENOENT' && errno(error) !== 'ENOTDIR') throw error
    }
  }
  return undefined
}

const pieceBytes = 64 * 1_024
const newline = 0x0a

/**
 * The position to read from. The start of the last lines is searched for from the end of the file. A compressed file must be read from its
 * start.
 */
async function startOf(file: FileHandle, path: string, { since = 0, tail, maxLines, maxBytes }: LogQuery): Promise<number> {
  if (compressionOf(path) !== undefined) return since
  const { size } = await file.stat()
  const first = Math.min(since, size)
  if (tail === undefined) return first
  const piece = Buffer.allocUnsafe(pieceBytes)
  // The search counts one newline more than lines, because the first line begins after the end of the line before it.
  let wanted = Math.min(tail, maxLines) + 1
  let found: number | undefined
  for (let end = size; end > first; ) {
    const start = Math.max(first, end - pieceBytes)
    const { bytesRead } = await file.read(piece, 0, end - start, start)
    for (let at = bytesRead - 1; at >= 0; at--) {
      if (piece[at] !== newline) continue
      found = start + at + 1
      wanted -= 1
      if (wanted === 0) return found
    }
    end = start
    // The search has covered more than `maxBytes`, so it stops, at the start of a line.
    if (found !== undefined && size - end > maxBytes + pieceBytes) return found
  }
  return first
}

/** Collects lines from pieces: the first lines until it is full, or the last lines. Stays within `maxLines` and `maxBytes`. */
class Window {
  readonly #lines: string[] = []
  readonly #isTail: boolean
  readonly #maxLines: number
  readonly #maxBytes: number
  /** The size of the kept lines. */
  #bytes = 0
  /** The start of a line whose end has not been read, up to `maxBytes`. */
  #open: Buffer[] = []
  #openKept = 0
  #openBytes = 0
  #isFull = false
  /** The position after the last line. */
  next: number

  constructor({ tail, maxLines, maxBytes }: LogQuery, start: number) {
    this.#isTail = tail !== undefined
    this.#maxLines = Math.min(tail ?? maxLines, maxLines)
    this.#maxBytes = maxBytes
    this.next = start
  }

  get result(): LogLines {
    return { lines: this.#lines, next: this.next }
  }

  /** Takes a piece of the content. Returns false when no more lines are wanted. */
  take(piece: Uint8Array): boolean {
    for (let at = 0; at < piece.length && !this.#isFull; ) {
      const end = piece.indexOf(newline, at)
      this.#keep(piece.subarray(at, end < 0 ? piece.length : end))
      if (end < 0) break
      this.#close(1)
      at = end + 1
    }
    return !this.#isFull
  }

  /** Called when the content has ended. An unfinished last line counts as complete then. */
  end(): void {
    if (this.#openBytes > 0 && !this.#isFull) this.#close(0)
  }

  #keep(part: Uint8Array): void {
    const room = this.#maxBytes - this.#openKept
    this.#openBytes += part.length
    if (room <= 0) return
    const kept = Buffer.from(part.subarray(0, room))
    this.#open.push(kept)
    this.#openKept += kept.length
  }

  #close(newlineBytes: number): void {
    const bytes = this.#openBytes
    const isCut = bytes > this.#openKept
    const isTooMuch = this.#lines.length >= this.#maxLines || (this.#lines.length > 0 && this.#bytes + this.#openKept > this.#maxBytes)
    if (isTooMuch && !this.#isTail) {
      this.#isFull = true
      return
    }
    this.next += bytes + newlineBytes
    const line = Buffer.concat(this.#open).toString('utf8')
    this.#lines.push(isCut ? `${line}…` : line)
    this.#bytes += this.#openKept
    while (this.#lines.length > this.#maxLines || (this.#lines.length > 1 && this.#bytes > this.#maxBytes)) {
      this.#bytes -= Buffer.byteLength(this.#lines.shift() ?? '')
    }
    this.#open = []
    this.#openKept = 0
    this.#openBytes = 0
    if (!this.#isTail && this.#lines.length >= this.#maxLines) this.#isFull = true
  }
}
