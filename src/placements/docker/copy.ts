import { closeSync, constants, lstatSync, openSync, readSync } from 'node:fs'
import type { Effects } from '../../core/ports/effects.ts'
import type { DockerQueries, OutputPaths, OutputPiece, OutputStream } from './ports.ts'

/**
 * Copies the output of a container into Ebb's logs, byte for byte. The size of a log is also the position up to which it was copied. After
 * a broken connection, or a restart of the daemon or the supervisor, the copy reads from the first byte, compares what the log already has,
 * and appends the rest. So no byte is lost or repeated, and no position is stored. A difference means that somebody shortened the daemon's
 * log.
 */

export interface CopyDeps {
  readonly effects: Effects
  readonly queries: DockerQueries
}

export interface Copying {
  /** True when the copy continues with what the container writes later, until the container ends. */
  readonly follows: boolean
  readonly signal: AbortSignal
  /** The limit of each stream in bytes. Output beyond it is discarded. */
  readonly mostBytes: number
}

/** Problems of the copy, for the report. */
export interface Copied {
  /** True when the daemon's log is shorter than Ebb's, or begins differently. */
  readonly isShortened: boolean
  /** True when the output exceeded the limit. */
  readonly isCut: boolean
}

/** The number of bytes of a shortened daemon log that are compared with the end of Ebb's log to find where the two overlap. */
const overlapBytes = 262_144

const streams = ['stdout', 'stderr'] as const
const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
type Both<T> = Readonly<Record<OutputStream, T>>

export async function copyOutput(deps: CopyDeps, id: string, paths: OutputPaths, how: Copying): Promise<Copied> {
  const copies = both((stream) => new Copy(deps.effects, paths[stream], how.mostBytes))
  // An agent that was ended for writing too much may have written a thousand times the limit, so the rest is not read.
  const wanted = streams.filter((stream) => !copies[stream].isFull)
  if (wanted.length === 0) return { isShortened: false, isCut: true }
  const isSame = await pour(deps, id, { ...how, wanted }, (stream, bytes) => copies[stream].take(bytes))
  // A followed stream may end early because the daemon left. A whole read that ends early means a shortened log.
  const isShort = !how.follows && !how.signal.aborted && wanted.some((stream) => copies[stream].isBehind)
  const isShortened = !isSame || isShort
  const all = isShortened ? await rejoin(deps, id, paths, how) : copies
  return { isShortened, isCut: streams.some((stream) => all[stream].isCut || copies[stream].isFull) }
}

/** Passes on the output of a container. Returns false when the daemon's bytes differ from those in the log. */
async function pour(
  { queries }: CopyDeps,
  id: string,
  { follows, signal, wanted }: Pick<Copying, 'follows' | 'signal'> & { readonly wanted?: readonly OutputStream[] },
  take: (stream: OutputStream, bytes: Uint8Array) => boolean,
): Promise<boolean> {
  for await (const { stream, bytes } of queries.output(id, follows, signal, wanted) as AsyncIterable<OutputPiece>) {
    // After an abort nothing more is written, because the log may be on its way into the archive.
    if (signal.aborted) return true
    if (!take(stream, bytes)) return false
  }
  return true
}

/**
 * Finds where the daemon's shortened log continues the end of Ebb's log, and appends the output from there. When the two do not overlap,
 * the daemon's whole log is appended: repeated output is better than lost output.
 */
async function rejoin(deps: CopyDeps, id: string, paths: OutputPaths, how: Copying): Promise<Both<Copy>> {
  const joints = both((stream) => new Joint(new Copy(deps.effects, paths[stream], how.mostBytes), paths[stream]))
  await pour(deps, id, { follows: false, signal: how.signal }, (stream, bytes) => joints[stream].take(bytes))
  const copies = both((stream) => joints[stream].copy)
  if (how.signal.aborted) return copies
  for (const stream of streams) joints[stream].end()
  if (!how.follows) return copies
  const left: Record<OutputStream, number> = both((stream) => joints[stream].seenBytes)
  await pour(deps, id, how, (stream, bytes) => {
    const skipped = Math.min(left[stream], bytes.length)
    left[stream] -= skipped
    copies[stream].append(bytes.subarray(skipped))
    return true
  })
  return copies
}

/** The copy of one stream into its log. */
class Copy {
  readonly #effects: Effects
  readonly #path: string
  readonly #mostBytes: number
  readonly #hadBytes: number
  #sizeBytes: number
  #seenBytes = 0
  isCut = false

  constructor(effects: Effects, path: string, mostBytes: number) {
    this.#effects = effects
    this.#path = path
    this.#mostBytes = mostBytes
    this.#hadBytes = sizeOf(path)
    this.#sizeBytes = this.#hadBytes
  }

  /** True when the log has the one byte over the limit that marks the output as cut. */
  get isFull(): boolean {
    return this.#sizeBytes > this.#mostBytes
  }

  /** True when the daemon sent less than the log already has. */
  get isBehind(): boolean {
    return this.#seenBytes < this.#hadBytes
  }

  /** Takes the next output of the daemon. Returns false when its bytes differ from those that the log has at this position. */
  take(bytes: Uint8Array): boolean {
    const known = bytes.subarray(0, Math.max(0, this.#hadBytes - this.#seenBytes))
    if (known.length > 0 && !bytesAt(this.#path, this.#seenBytes, known.length).equals(known)) return false
    this.#seenBytes += bytes.length
    this.append(bytes.subarray(known.length))
    return true
  }

  /** Writes one byte over the limit, from which the reader of the log sees that the limit was exceeded. */
  append(bytes: Uint8Array): void {
    const taken = bytes.subarray(0, Math.max(0, this.#mostBytes + 1 - this.#sizeBytes))
    if (taken.length < bytes.length) this.isCut = true
    if (taken.length === 0) return
    this.#effects.append(this.#path, taken, 0o600)
    this.#sizeBytes += taken.length
  }
}

/** Finds where the end of Ebb's log continues in the daemon's shortened log. */
class Joint {
  readonly copy: Copy
  readonly #tail: Buffer
  #head: Uint8Array[] | undefined = []
  #headBytes = 0
  seenBytes = 0

  constructor(copy: Copy, path: string) {
    this.copy = copy
    const size = sizeOf(path)
    const length = Math.min(size, overlapBytes)
    this.#tail = bytesAt(path, size - length, length)
  }

  take(bytes: Uint8Array): boolean {
    this.seenBytes += bytes.length
    if (!this.#head) this.copy.append(bytes)
    else {
      this.#head.push(Uint8Array.from(bytes))
      this.#headBytes += bytes.length
      if (this.#headBytes >= overlapBytes) this.end()
    }
    return true
  }

  end(): void {
    if (!this.#head) return
    const head = Buffer.concat(this.#head)
    this.#head = undefined
    this.copy.append(head.subarray(overlapOf(this.#tail, head)))
  }
}

/** The number of bytes at the beginning of `head` that are the end of `tail`. */
export function overlapOf(tail: Buffer, head: Buffer): number {
  const [first] = head
  if (first === undefined) return 0
  for (let at = tail.indexOf(first, Math.max(0, tail.length - head.length)); at >= 0; at = tail.indexOf(first, at + 1))
    if (tail.subarray(at).equals(head.subarray(0, tail.length - at))) return tail.length - at
  return 0
}

/** Reads bytes of a log from a position on. Returns fewer bytes when the file ends earlier. */
function bytesAt(path: string, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length)
  if (length === 0) return bytes
  const fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    return bytes.subarray(0, readSync(fd, bytes, 0, length, position))
  } finally {
    closeSync(fd)
  }
}

function both<T>(make: (stream: OutputStream) => T): Record<OutputStream, T> {
  return { stdout: make('stdout'), stderr: make('stderr') }
}

export function sizeOf(path: string): number {
  return lstatSync(path, { throwIfNoEntry: false })?.size ?? 0
}
