import { type BigIntStats, lstatSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, normalize } from 'node:path'
import { EbbError, errno } from '../core/model/errors.ts'
import type { Inode } from '../core/model/identity.ts'
import type { Effects } from '../core/ports/effects.ts'

/** A file or directory of Ebb must lie inside its workspace, be reached through no symlink, and belong to this user. */

export interface Confined {
  readonly workspace: string
  /** The path of the file or directory, relative to the workspace. */
  readonly path: string
}

/** The absolute path, or an error when it would lie outside the workspace. Reads no file system. */
export function confine({ workspace, path }: Confined): string {
  const parts = path.split('/')
  if (
    !isAbsolute(workspace) ||
    path === '' ||
    isAbsolute(path) ||
    path.includes('\0') ||
    parts.includes('..') ||
    parts.includes('.') ||
    parts.includes('')
  ) {
    throw refused(path, 'it must lie inside the workspace, without ".." and without a leading slash')
  }
  return join(normalize(workspace), path)
}

/** Checks every folder from the workspace to the parent: a symlink there would lead out of the workspace (G10). */
export function requireOwnPath(confined: Confined): void {
  const missing = missingStep(confined)
  if (missing === normalize(confined.workspace)) throw refused(missing, 'the workspace is not a directory')
  if (missing !== undefined) throw refused(confine(confined), `${missing} does not exist`)
}

/** Like `requireOwnPath`, for callers that expect missing folders: returns the first folder that does not exist. */
export function missingStep(confined: Confined): string | undefined {
  const full = confine(confined)
  let current = normalize(confined.workspace)
  const root = statSync(current, { throwIfNoEntry: false })
  if (!root) return current
  if (!root.isDirectory()) throw refused(current, 'the workspace is not a directory')
  for (const part of confined.path.split('/').slice(0, -1)) {
    current = join(current, part)
    const stat = lstatSync(current, { throwIfNoEntry: false })
    if (!stat) return current
    if (!stat.isDirectory()) throw refused(full, `${current} is a link or a file, not a directory`)
    if (stat.uid !== process.getuid?.()) throw refused(full, `${current} belongs to another user`)
  }
  return undefined
}

/**
 * Makes the missing folders between the workspace and the path. Existing ones must belong to this user. The workspace itself is not made.
 */
export function makeParents(effects: Pick<Effects, 'makeDirectory'>, confined: Confined): void {
  for (let missing = missingStep(confined); missing !== undefined; missing = missingStep(confined)) {
    if (missing === normalize(confined.workspace)) throw refused(missing, 'the workspace is not a directory')
    try {
      effects.makeDirectory(missing, 0o700)
    } catch (error) {
      // Another process made the folder first. The next check decides whether the folder can be used.
      if (errno(error) !== 'EEXIST') throw error
    }
  }
}

/**
 * The path of an entry in a folder, as bytes. The kernel allows every byte but `/` and NUL in a name. An agent may use names that are
 * not UTF-8, and a name that was decoded as text would not find the file again.
 */
export function inFolder(folder: string | Buffer, name: string | Buffer): Buffer {
  return Buffer.concat([Buffer.from(folder), Buffer.from('/'), Buffer.from(name)])
}

export function inodeOf(stat: BigIntStats): Inode {
  return { device: String(stat.dev), inode: String(stat.ino), bornNs: String(stat.birthtimeNs) }
}

/** lstat(2); undefined when there is no such path. */
export function findStat(path: string): BigIntStats | undefined {
  try {
    return lstatSync(path, { bigint: true })
  } catch (error) {
    if (errno(error) === 'ENOENT' || errno(error) === 'ENOTDIR') return undefined
    throw error
  }
}

export function isSame(stat: BigIntStats | undefined, inode: Inode | undefined): boolean {
  if (!stat || !inode) return false
  const now = inodeOf(stat)
  return now.device === inode.device && now.inode === inode.inode && now.bornNs === inode.bornNs
}

/** A temporary path beside the final path. Its name contains the resource's id, so a file with this name belongs to the resource. */
export function stagingPath(path: string, resourceId: string): string {
  return join(dirname(path), `.${basename(path).slice(0, 100)}.${resourceId}.ebb`)
}

/**
 * The first mount point at the path or below it. A bind mount has the same device number as what it hides, so a comparison of device
 * numbers would miss it. The kernel lists mounts by real path, and the workspace may be reached through a symlink.
 */
export function mountAt(path: string): string | undefined {
  const real = join(realpathSync(dirname(path)), basename(path))
  return mountPoints().find((point) => point === real || point.startsWith(`${real}/`))
}

/** The mount points that this process sees; none on a system without /proc. */
function mountPoints(): readonly string[] {
  try {
    return readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .map((line) => line.split(' ')[4] ?? '')
      .map((point) => point.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))))
  } catch (error) {
    // An error other than ENOENT, such as no free descriptor, is thrown: nothing may be removed before the mounts are known (G10).
    if (errno(error) === 'ENOENT') return []
    throw error
  }
}

export function refused(path: string, why: string): EbbError {
  return new EbbError('path_refused', `The path ${path} is refused: ${why}.`)
}
