// `promises` is imported from `node:fs`, where it is a lazy property. Loading it takes 4 ms, which a run without logs does not spend.
import { constants, promises as files } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { refused } from './path.ts'

/** File operations that take long with a log of gigabytes: they run in the thread pool, in pieces. */

const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK } = constants

const pieceBytes = 1_024 * 1_024

/** Opens a regular file only: a symlink would lead elsewhere, and opening a pipe would block. */
export async function openRegular(path: string): Promise<FileHandle> {
  const file = await files.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    if (!(await file.stat()).isFile()) throw refused(path, 'it is not a file')
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/**
 * Writes a new target from a source. The target is made before the source is opened. So when a caller removes first the source and then the
 * target, no target is made later.
 */
async function remake(from: string, to: string, work: (source: FileHandle, target: FileHandle) => Promise<void>): Promise<void> {
  const target = await files.open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
  try {
    const source = await openRegular(from)
    try {
      await work(source, target)
      await target.sync()
    } finally {
      await source.close()
    }
  } finally {
    await target.close()
  }
}

export async function copy(from: string, to: string): Promise<void> {
  await remake(from, to, async (source, target) => {
    const piece = Buffer.allocUnsafe(pieceBytes)
    for (;;) {
      const { bytesRead } = await source.read(piece, 0, piece.length, null)
      if (bytesRead === 0) return
      await writeAll(target, piece.subarray(0, bytesRead))
    }
  })
}

async function writeAll(target: FileHandle, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length; ) at += (await target.write(bytes, at)).bytesWritten
}

export async function compress(from: string, to: string): Promise<void> {
  // The modules for compression are loaded here, because `ebb exec` never compresses and must start fast.
  const [{ createZstdCompress }, { pipeline }] = await Promise.all([import('node:zlib'), import('node:stream/promises')])
  await remake(from, to, async (source, target) => {
    const out = async (pieces: AsyncIterable<Buffer>): Promise<void> => {
      for await (const piece of pieces) await writeAll(target, piece)
    }
    await pipeline(source.createReadStream({ autoClose: false, highWaterMark: pieceBytes }), createZstdCompress(), out)
  })
}

/** The first bytes of a regular file. */
export async function readStart(path: string, bytes: number): Promise<string> {
  const file = await openRegular(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, 0)
    return buffer.toString('utf8', 0, bytesRead)
  } finally {
    await file.close()
  }
}

export async function flush(path: string): Promise<void> {
  const file = await files.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

export async function discard(path: string): Promise<void> {
  await files.rm(path, { recursive: true, force: true })
}
