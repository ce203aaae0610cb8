import { type BigIntStats, lstatSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, normalize } from 'node:path'
import { EbbError, errno } from '../core/model/errors.ts'
import type { Effects } from '../core/ports/effects.ts'

/** Where a file or directory of ours may be: inside its workspace, through no link, owned by us. */

export interface Confined {
  readonly workspace: string
  /** Relative to the workspace. */
  readonly path: string
}

/** Pure: the absolute path, or a refusal. */
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

/** Looks at every step from the workspace to the parent: a link there would lead us out of it (G10). */
export function requireOwnPath(confined: Confined): void {
  const missing = missingStep(confined)
  if (missing === normalize(confined.workspace)) throw refused(missing, 'the workspace is not a directory')
  if (missing !== undefined) throw refused(confine(confined), `${missing} does not exist`)
}

/** The same walk, for those to whom a missing folder is no surprise: the first one that is not there. */
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
    if (stat.uid !== process.getuid?.()) throw refused(full, `${current} belongs to somebody else`)
  }
  return undefined
}

/** Makes the folders on the way that are not there; those that are must be ours. The workspace itself is not made. */
export function makeWay(effects: Pick<Effects, 'makeDirectory'>, confined: Confined): void {
  for (let missing = missingStep(confined); missing !== undefined; missing = missingStep(confined)) {
    if (missing === normalize(confined.workspace)) throw refused(missing, 'the workspace is not a directory')
    try {
      effects.makeDirectory(missing, 0o700)
    } catch (error) {
      // Another one of the same workspace was faster; the next look says what it is.
      if (errno(error) !== 'EEXIST') throw error
    }
  }
}

/**
 * A path to something in a folder, by its name as the kernel has it: bytes but for `/` and NUL. Agents need not write UTF-8, and
 * what was read as text could not be found again.
 */
export function inFolder(folder: string | Buffer, name: string | Buffer): Buffer {
  return Buffer.concat([Buffer.from(folder), Buffer.from('/'), Buffer.from(name)])
}

/** What names a file for good: a path can be taken over by another file, and inode numbers are reused. */
export interface Inode {
  readonly device: string
  readonly inode: string
  readonly bornNs: string
}

export function inodeOf(stat: BigIntStats): Inode {
  return { device: String(stat.dev), inode: String(stat.ino), bornNs: String(stat.birthtimeNs) }
}

export function lookAt(path: string): BigIntStats | undefined {
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

/** Beside the final place, under a name that only the resource's id can give: whatever is there is ours. */
export function stagingPath(path: string, resourceId: string): string {
  return join(dirname(path), `.${basename(path).slice(0, 100)}.${resourceId}.ebb`)
}

/**
 * A mount on the path or below it: also a bind mount, which shares a device with what it hides. The kernel knows them by
 * their real path, and the workspace may be reached through a link.
 */
export function mountAt(path: string): string | undefined {
  const real = join(realpathSync(dirname(path)), basename(path))
  return mountPoints().find((point) => point === real || point.startsWith(`${real}/`))
}

/** None are known where there is no /proc. */
function mountPoints(): readonly string[] {
  try {
    return readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .map((line) => line.split(' ')[4] ?? '')
      .map((point) => point.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))))
  } catch (error) {
    // No free descriptor is no answer: nothing is removed before we know what is mounted there (G10).
    if (errno(error) === 'ENOENT') return []
    throw error
  }
}

export function refused(path: string, why: string): EbbError {
  return new EbbError('path_refused', `The path ${path} is refused: ${why}.`)
}
