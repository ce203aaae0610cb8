import { constants, promises as files } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { errno } from '../../core/model/errors.ts'
import type { LogWatch } from './log-watch.ts'

/** Where the output of an agent is: its live log, and where that goes when it is complete. */
export interface OutputPlace {
  readonly path: string
  readonly archive: string
}

export interface OutputReading {
  readonly place: OutputPlace
  readonly watch: LogWatch
  /** Settles when nobody writes to the log any more. */
  readonly complete: Promise<unknown>
  readonly signal: AbortSignal
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

const pieceBytes = 65_536

/**
 * What an agent writes, byte for byte, as it comes, to its end. It is read as fast as it is taken: the log is a file, so
 * nothing piles up in memory. Opened once: where the log moves, or is deleted, an open descriptor stays with it.
 */
export async function* rawOutput({ place, watch, complete, signal }: OutputReading): AsyncGenerator<Uint8Array> {
  let isComplete = false
  let wake = (): void => {}
  let hasNews = true
  const tell = (): void => {
    hasNews = true
    wake()
  }
  const file = await openLog(place)
  if (!file) return
  complete.then(
    () => {
      isComplete = true
      tell()
    },
    () => tell(),
  )
  signal.addEventListener('abort', tell, { once: true })
  watch.add(place.path, tell)
  try {
    const piece = Buffer.allocUnsafe(pieceBytes)
    for (let offset = 0; !signal.aborted; ) {
      hasNews = false
      const wasComplete = isComplete
      const { bytesRead } = await file.read(piece, 0, pieceBytes, offset)
      offset += bytesRead
      // A copy: whoever takes it may keep it while the next one is read.
      if (bytesRead > 0) yield Buffer.from(piece.subarray(0, bytesRead))
      else if (wasComplete) return
      else if (!hasNews)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
    }
  } finally {
    watch.remove(place.path)
    signal.removeEventListener('abort', tell)
    await file.close()
  }
}

/** In the order in which it moves; and once more, because it may have come back from a move that failed. */
async function openLog({ path, archive }: OutputPlace): Promise<FileHandle | undefined> {
  for (const place of [path, archive, path]) {
    try {
      return await files.open(place, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    } catch (error) {
      if (errno(error) !== 'ENOENT' && errno(error) !== 'ENOTDIR') throw error
    }
  }
  return undefined
}
