import { closeSync, constants, lstatSync, openSync, readSync } from 'node:fs'
import type { Effects } from '../../core/ports/effects.ts'
import type { DockerQueries, OutputPaths, OutputPiece, OutputStream } from './ports.ts'

/**
 * Copies what a container wrote into our logs, byte for byte. How far it has come is the size of the log itself: whoever
 * begins anew, after a broken connection, a restart of the daemon or of the supervisor, reads from the first byte and leaves
 * out as many as the log has, once it has seen that they are the same. So nothing is lost, nothing comes twice, and no
 * position is kept anywhere. Where they are not the same, somebody has shortened the daemon's log.
 */

export interface CopyDeps {
  readonly effects: Effects
  readonly looks: DockerQueries
}

export interface Copying {
  /** Also what is still to come. */
  readonly follows: boolean
  readonly signal: AbortSignal
  /** More of a stream is nobody's output. */
  readonly mostBytes: number
}

/** What was the matter with it, for the report. */
export interface Copied {
  /** The daemon's log does not begin as ours does, or is shorter. */
  readonly isShortened: boolean
  /** There was more than is kept. */
  readonly isCut: boolean
}

/** So much of a shortened log is held against the end of ours to see where they meet. */
const overlapBytes = 262_144

const streams = ['stdout', 'stderr'] as const
const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
type Both<T> = Readonly<Record<OutputStream, T>>

export async function copyOutput(deps: CopyDeps, id: string, paths: OutputPaths, how: Copying): Promise<Copied> {
  const copies = both((stream) => new Copy(deps.effects, paths[stream], how.mostBytes))
  // Of an agent that was ended because it wrote too much, the rest may be a thousand times what is kept.
  const wanted = streams.filter((stream) => !copies[stream].isFull)
  if (wanted.length === 0) return { isShortened: false, isCut: true }
  const isSame = await pour(deps, id, { ...how, wanted }, (stream, bytes) => copies[stream].take(bytes))
  // One that is followed and ends early may be a daemon that left; a whole read is not.
  const isShort = !how.follows && !how.signal.aborted && wanted.some((stream) => copies[stream].isBehind)
  const isShortened = !isSame || isShort
  const all = isShortened ? await rejoin(deps, id, paths, how) : copies
  return { isShortened, isCut: streams.some((stream) => all[stream].isCut || copies[stream].isFull) }
}

/** False when what came is not what it should be. */
async function pour(
  { looks }: CopyDeps,
  id: string,
  { follows, signal, wanted }: Pick<Copying, 'follows' | 'signal'> & { readonly wanted?: readonly OutputStream[] },
  take: (stream: OutputStream, bytes: Uint8Array) => boolean,
): Promise<boolean> {
  for await (const { stream, bytes } of looks.output(id, follows, signal, wanted) as AsyncIterable<OutputPiece>) {
    // Whoever was told to stop writes nothing more: the log may be on its way into the archive.
    if (signal.aborted) return true
    if (!take(stream, bytes)) return false
  }
  return true
}

/**
 * What the daemon still has is added where it goes on from the end of ours. Where no such place is seen, all of it is: rather
 * twice than not at all.
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

/** One stream on its way into its log. */
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

  /** It has the byte over the limit. */
  get isFull(): boolean {
    return this.#sizeBytes > this.#mostBytes
  }

  /** Less has come than the log has. */
  get isBehind(): boolean {
    return this.#seenBytes < this.#hadBytes
  }

  /** False when it is not what the log has at this place. */
  take(bytes: Uint8Array): boolean {
    const known = bytes.subarray(0, Math.max(0, this.#hadBytes - this.#seenBytes))
    if (known.length > 0 && !bytesAt(this.#path, this.#seenBytes, known.length).equals(known)) return false
    this.#seenBytes += bytes.length
    this.append(bytes.subarray(known.length))
    return true
  }

  /** One byte over the limit is written: that is how whoever reads the log sees that it is broken. */
  append(bytes: Uint8Array): void {
    const taken = bytes.subarray(0, Math.max(0, this.#mostBytes + 1 - this.#sizeBytes))
    if (taken.length < bytes.length) this.isCut = true
    if (taken.length === 0) return
    this.#effects.append(this.#path, taken, 0o600)
    this.#sizeBytes += taken.length
  }
}

/** The end of a log, and the beginning of what the daemon has left of it. */
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

/** How many bytes at the beginning of the second are the end of the first. */
export function overlapOf(tail: Buffer, head: Buffer): number {
  const [first] = head
  if (first === undefined) return 0
  for (let at = tail.indexOf(first, Math.max(0, tail.length - head.length)); at >= 0; at = tail.indexOf(first, at + 1))
    if (tail.subarray(at).equals(head.subarray(0, tail.length - at))) return tail.length - at
  return 0
}

/** Fewer, where there are fewer. */
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
