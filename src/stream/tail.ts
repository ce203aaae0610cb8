import { closeSync, existsSync, openSync, readSync, watch } from 'node:fs'

/**
 * Lines of a log while it grows, and to its last byte once it is complete. The file is opened once: the archive moves
 * it, but an open descriptor stays with it. Nothing is lost, and a last line without an end is a line too.
 */
export interface Tail {
  readonly path: string
  /** Where the log is when it has been archived before the first look. */
  readonly archive: string
  /** Settles when the writer is proven gone and everything it wrote is in the file. */
  readonly complete: Promise<unknown>
}

export interface Line {
  readonly text: string
  readonly isTruncated: boolean
}

/** A line that is longer is cut, and said to be: one agent must not fill our memory. */
const longestLineBytes = 1_048_576
const newline = 0x0a

export async function* tailLines(tail: Tail, signal: AbortSignal): AsyncGenerator<Line> {
  const fd = open(tail)
  if (fd === undefined) return
  try {
    yield* linesOf(fd, tail, signal)
  } finally {
    closeSync(fd)
  }
}

function open({ path, archive }: Tail): number | undefined {
  for (const candidate of [path, archive, path]) {
    try {
      if (existsSync(candidate)) return openSync(candidate, 'r')
    } catch {
      // Moved between the look and the open.
    }
  }
  return undefined
}

async function* linesOf(fd: number, tail: Tail, signal: AbortSignal): AsyncGenerator<Line> {
  const chunk = Buffer.allocUnsafe(256 * 1024)
  const line = new LineBuffer()
  let isComplete = false
  const complete = tail.complete
    .catch(() => {})
    .then(() => {
      isComplete = true
    })
  while (!signal.aborted) {
    // Read the flag first: what is empty after the end was seen is really empty.
    const wasComplete = isComplete
    const count = readSync(fd, chunk, 0, chunk.length, null)
    if (count > 0) yield* line.add(chunk.subarray(0, count))
    else if (wasComplete) break
    else await growth(tail.path, complete, signal)
  }
  yield* line.rest()
}

class LineBuffer {
  #parts: Buffer[] = []
  #size = 0
  #isTruncated = false

  #keep(bytes: Buffer): void {
    const room = longestLineBytes - this.#size
    if (bytes.length > room) this.#isTruncated = true
    if (room <= 0 || bytes.length === 0) return
    // A copy: the chunk is used again for the next read.
    this.#parts.push(Buffer.from(bytes.subarray(0, room)))
    this.#size += Math.min(bytes.length, room)
  }

  *add(chunk: Buffer): Generator<Line> {
    let from = 0
    for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
      this.#keep(chunk.subarray(from, at))
      yield this.#take()
      from = at + 1
    }
    this.#keep(chunk.subarray(from))
  }

  *rest(): Generator<Line> {
    if (this.#size > 0) yield this.#take()
  }

  #take(): Line {
    const line = { text: Buffer.concat(this.#parts).toString('utf8'), isTruncated: this.#isTruncated }
    this.#parts = []
    this.#size = 0
    this.#isTruncated = false
    return line
  }
}

/** The next change of the file, its completion, or the caller's leaving. */
async function growth(path: string, complete: Promise<void>, signal: AbortSignal): Promise<void> {
  const changed = Promise.withResolvers<void>()
  const wake = (): void => changed.resolve()
  let watcher: ReturnType<typeof watch> | undefined
  const slow = setTimeout(wake, slowLookMs)
  signal.addEventListener('abort', wake, { once: true })
  try {
    watcher = watch(path, wake)
    watcher.on('error', wake)
  } catch {
    // Archived already, or out of watches: the slow look and the completion remain.
  }
  try {
    await Promise.race([changed.promise, complete])
  } finally {
    clearTimeout(slow)
    signal.removeEventListener('abort', wake)
    watcher?.close()
  }
}

/** Growth between the last read and the watch is seen by the next look, this late at most. */
const slowLookMs = 50
