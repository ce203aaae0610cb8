import { constants, promises as files } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { errno } from '../../core/model/errors.ts'
import type { LogWatch } from './log-watch.ts'

/** The paths of an agent's output: the live log, and the archive that it is moved to when it is complete. */
export interface OutputPlace {
  readonly path: string
  readonly archive: string
}

export interface OutputReading {
  readonly place: OutputPlace
  readonly watch: LogWatch
  /** Settles when no process writes to the log any more. */
  readonly complete: Promise<unknown>
  readonly signal: AbortSignal
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

const pieceBytes = 65_536

/**
 * Yields an agent's output byte for byte as it is written, until the log is complete. Reads only as fast as the consumer takes
 * the pieces; the rest stays in the log file, not in memory. The log is opened once: an open descriptor stays valid when the
 * file is moved or deleted.
 */
export async function* rawOutput({ place, watch, complete, signal }: OutputReading): AsyncGenerator<Uint8Array> {
  let isComplete = false
  let wake = (): void => {}
  let hasNews = true
  const notify = (): void => {
    hasNews = true
    wake()
  }
  const file = await openLog(place)
  if (!file) return
  complete.then(
    () => {
      isComplete = true
      notify()
    },
    () => notify(),
  )
  signal.addEventListener('abort', notify, { once: true })
  watch.add(place.path, notify)
  try {
    const piece = Buffer.allocUnsafe(pieceBytes)
    for (let offset = 0; !signal.aborted; ) {
      hasNews = false
      const wasComplete = isComplete
      const { bytesRead } = await file.read(piece, 0, pieceBytes, offset)
      offset += bytesRead
      // Each piece is copied, because the consumer may keep it while the next piece is read into the same memory.
      if (bytesRead > 0) yield Buffer.from(piece.subarray(0, bytesRead))
      else if (wasComplete) return
      else if (!hasNews)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
    }
  } finally {
    watch.remove(place.path)
    signal.removeEventListener('abort', notify)
    await file.close()
  }
}

/** Opens an agent's log: tries the live log, then the archive, then the live log again, because a failed move puts the log back. */
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
