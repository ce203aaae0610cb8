import type { FileHandle } from 'node:fs/promises'
import { pipeline, type Readable } from 'node:stream'
import { openRegular } from '../../host/slow-effects.ts'

/** What was written to an archived log, piece by piece, whether it is compressed or not. */
export async function* contentOf(path: string, from = 0): AsyncIterable<Uint8Array> {
  const file = await openRegular(path)
  try {
    yield* contentOfFile(file, path, from)
  } finally {
    await file.close()
  }
}

/** From a place in the content on; that of a compressed file has to be read from its start. */
export async function* contentOfFile(file: FileHandle, path: string, from: number): AsyncIterable<Uint8Array> {
  const compression = compressionOf(path)
  if (compression === undefined) {
    yield* file.createReadStream({ autoClose: false, start: from, highWaterMark: 256 * 1_024 }) as AsyncIterable<Uint8Array>
    return
  }
  const zlib = await import('node:zlib')
  const plain: Readable = compression === 'zst' ? zlib.createZstdDecompress() : zlib.createGunzip()
  // A reader that has had enough ends it early; what went wrong is thrown by the reading.
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
