import type { FileHandle } from 'node:fs/promises'
import { pipeline, type Readable } from 'node:stream'
import { openRegular } from '../../host/slow-effects.ts'

/** The uncompressed content of an archived log, in pieces. */
export async function* contentOf(path: string, from = 0): AsyncIterable<Uint8Array> {
  const file = await openRegular(path)
  try {
    yield* contentOfFile(file, path, from)
  } finally {
    await file.close()
  }
}

/** The content from a position on. A compressed file must be read from its start, and the pieces before the position are skipped. */
export async function* contentOfFile(file: FileHandle, path: string, from: number): AsyncIterable<Uint8Array> {
  const compression = compressionOf(path)
  if (compression === undefined) {
    yield* file.createReadStream({ autoClose: false, start: from, highWaterMark: 256 * 1_024 }) as AsyncIterable<Uint8Array>
    return
  }
  const zlib = await import('node:zlib')
  const plain: Readable = compression === 'zst' ? zlib.createZstdDecompress() : zlib.createGunzip()
  // The callback of the pipeline ignores the error: a reader may stop early, and the loop below throws a read error itself.
  pipeline(file.createReadStream({ autoClose: false }), plain as never, () => {})
  let passed = 0
  for await (const piece of plain as AsyncIterable<Uint8Array>) {
    const skip = Math.min(piece.length, Math.max(0, from - passed))
    passed += piece.length
    if (skip < piece.length) yield piece.subarray(skip)
  }
}

export function compressionOf(path: string): 'zst' | 'gz' | undefined {
  return path.endsWith('.zst') ? 'zst' : path.endsWith('.gz') ? 'gz' : undefined
}
