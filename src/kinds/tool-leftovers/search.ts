import { constants, promises as files, type Stats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { EbbError, errno } from '../../core/model/errors.ts'
import type { TracePlace } from '../../core/ports/provider.ts'
import { type FileVersion, type Leftover, type ToolLeftoversSpec, versionOf } from './sighted.ts'

/** Finds the files that contain a mark, in folders of the user. It follows no symlink, reads only candidates, and changes nothing. */

/**
 * How much of a file is read. A shell snapshot has some kilobytes, with many functions perhaps a megabyte. Of a larger file the end is read
 * too, because claude writes the PATH there.
 */
const maxBytes = 16 * 1_024 * 1_024
const endBytes = 1_024 * 1_024
const pieceBytes = 64 * 1_024
const batchSize = 32

export async function findToolLeftovers(spec: ToolLeftoversSpec, signal: AbortSignal): Promise<readonly Leftover[]> {
  const found: Leftover[] = []
  for (const place of spec.places) found.push(...(await findIn(place, spec, signal)))
  return found
}

async function findIn(place: TracePlace, spec: ToolLeftoversSpec, signal: AbortSignal): Promise<readonly Leftover[]> {
  const names = await namesIn(place.folder)
  const pattern = whole(place.name)
  const wanted = names.filter((name) => pattern.test(name))
  const leftovers: Leftover[] = []
  for (let at = 0; at < wanted.length; at += batchSize) {
    signal.throwIfAborted()
    const batch = await Promise.all(wanted.slice(at, at + batchSize).map((name) => inspect(place, name, names, spec)))
    leftovers.push(...batch.filter((leftover) => leftover !== undefined))
  }
  return leftovers
}

/** A missing folder holds no files. A folder that cannot be read is unknown, so this throws (G4). */
async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await files.readdir(folder)
  } catch (cause) {
    if (errno(cause) === 'ENOENT' || errno(cause) === 'ENOTDIR') return []
    throw new EbbError(
      'path_refused',
      `The folder ${folder} cannot be read (${errno(cause)}); make it readable, and Ebb checks it again.`,
      {
        cause,
      },
    )
  }
}

async function inspect(place: TracePlace, name: string, names: readonly string[], spec: ToolLeftoversSpec): Promise<Leftover | undefined> {
  const path = join(place.folder, name)
  const stat = await statOf(path)
  if (!isCandidate(stat, spec.sinceMs)) return undefined
  if (!(await holds(path, spec.marks))) return undefined
  return { path, version: versionOf(stat), kin: place.kin ? await kinOf(place.folder, name, place.kin, names) : [] }
}

async function kinOf(
  folder: string,
  name: string,
  kin: NonNullable<TracePlace['kin']>,
  names: readonly string[],
): Promise<readonly FileVersion[]> {
  const stem = name.slice(0, name.lastIndexOf('.'))
  const pattern = whole(kin.name.replaceAll('{stem}', escaped(stem)))
  const content = await textOf(join(folder, name))
  const shared = kin.shares.map((pattern) => new RegExp(pattern).exec(content)?.[0])
  if (shared.includes(undefined)) return []
  const found: FileVersion[] = []
  for (const other of names.filter((candidate) => candidate !== name && pattern.test(candidate))) {
    const path = join(folder, other)
    const stat = await statOf(path)
    if (!isCandidate(stat, 0)) continue
    const text = await textOf(path)
    if (shared.every((part) => part !== undefined && text.includes(part))) found.push({ path, version: versionOf(stat) })
  }
  return found
}

async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await files.lstat(path)
  } catch (error) {
    if (errno(error) === 'ENOENT') return undefined
    throw error
  }
}

function isCandidate(stat: Stats | undefined, sinceMs: number): stat is Stats {
  return stat?.isFile() === true && stat.uid === process.getuid?.() && stat.mtimeMs >= sinceMs
}

/** Searches a file in pieces. Each piece is searched with the end of the piece before it, because a mark may cross the boundary. */
async function holds(path: string, marks: readonly string[]): Promise<boolean> {
  const wanted = marks.map((mark) => Buffer.from(mark))
  const overlap = Math.max(...wanted.map(({ length }) => length)) - 1
  let rest: Buffer = Buffer.alloc(0)
  for await (const piece of piecesOf(path)) {
    const window = Buffer.concat([rest, piece])
    if (wanted.some((mark) => window.includes(mark))) return true
    rest = window.subarray(Math.max(0, window.length - overlap))
  }
  return false
}

/** The text of the first piece of a file. Files that are compared are small; a larger file is no match. */
async function textOf(path: string): Promise<string> {
  for await (const piece of piecesOf(path)) return piece.toString('utf8')
  return ''
}

async function* piecesOf(path: string): AsyncIterable<Buffer> {
  const file = await openFile(path)
  if (!file) return
  try {
    const { size } = await file.stat()
    yield* read(file, 0, maxBytes)
    if (size > maxBytes) yield* read(file, Math.max(maxBytes, size - endBytes), endBytes)
  } finally {
    await file.close()
  }
}

async function* read(file: FileHandle, from: number, length: number): AsyncIterable<Buffer> {
  const buffer = Buffer.allocUnsafe(pieceBytes)
  for (let at = from; at < from + length; ) {
    const { bytesRead } = await file.read(buffer, 0, pieceBytes, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

/** Opens a file. Undefined for a file that is gone, and for a symlink or pipe that has replaced it since lstat(2). */
async function openFile(path: string): Promise<FileHandle | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  try {
    const file = await files.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    if ((await file.stat()).isFile()) return file
    await file.close()
    return undefined
  } catch (error) {
    if (errno(error) === 'ENOENT' || errno(error) === 'ELOOP') return undefined
    throw error
  }
}

function whole(pattern: string): RegExp {
  return new RegExp(`^(?:${pattern})$`)
}

function escaped(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9_]/g, (character) => `\\${character}`)
}
