import { basename, join } from 'node:path'
import { sentence } from '../../core/model/errors.ts'
import type { Mark } from '../../core/model/identity.ts'
import type { Intent } from '../../core/model/resource.ts'
import type { LogSpec } from '../../core/ports/agent-log.ts'
import { type Confined, confine, findStat, missingStep, refused, requireOwnPath, stagingPath } from '../../host/path.ts'

/** The paths of a log and its archive, derived from the intent alone, and which of these files exist now. */

export interface LogRef extends LogSpec {
  readonly mark: Mark
  readonly path: string
  /** The path of the pipe, always in the home: other programs read the files of a workspace, and reading a pipe would block them. */
  readonly pipe: string
  /** The path of a copy until it is complete. */
  readonly staging: string
}

export function refOf(home: string, { id, incarnation, spec }: Intent<LogSpec>): LogRef {
  const { inside } = spec
  const mark = { installation: spec.installation, incarnation, resourceId: id }
  const own = join(inside ? home : spec.directory, `${incarnation}~${id}.log`)
  const archive = archiveOf(spec)
  const path = inside ? confine({ workspace: inside.workspace, path: inside.path }) : own
  return { ...spec, archive, mark, path, pipe: `${own}.pipe`, staging: stagingPath(archive, id) }
}

export function archiveOf({ archive, inside }: LogSpec): string {
  return inside ? confine({ workspace: inside.workspace, path: inside.archive }) : archive
}

export function streamOf({ stream, archive }: LogSpec): string {
  return stream ?? basename(archive, '.log')
}

/**
 * The path of a log or of its archive in a workspace, which must be reached without a symlink; undefined in the home, where only Ebb
 * writes.
 */
export function confinedOf({ inside }: LogSpec, which: 'path' | 'archive'): Confined | undefined {
  return inside && { workspace: inside.workspace, path: inside[which] }
}

/** The path of the log if it exists, or the reason why that is not known: a path through a symlink is not followed (G10). */
export function findLog(ref: LogRef): string | undefined {
  return findAt(ref.path, confinedOf(ref, 'path'))
}

/** The first existing file of the log, its copy or its pipe. The archive does not count. */
export function findAny(ref: LogRef): string | undefined {
  return findLog(ref) ?? findCopy(ref) ?? (findStat(ref.pipe) && ref.pipe)
}

/** The path of the copy if it exists. Behind a symlink there is no file of ours. */
export function findCopy(ref: LogRef): string | undefined {
  return findAt(ref.staging, confinedOf(ref, 'archive')) === ref.staging ? ref.staging : undefined
}

/**
 * Throws when something else is at the path of the log, or a symlink is on the way. In a workspace other programs write too, and a
 * foreign file is neither archived nor removed (G10).
 */
export function requireOwn(ref: LogRef): void {
  const confined = confinedOf(ref, 'path')
  if (!confined) return
  requireOwnPath(confined)
  if (findStat(ref.path)?.isFile() === false) throw refused(ref.path, 'it is not a file any more; check what is there, and remove it')
}

function findAt(path: string, confined: Confined | undefined): string | undefined {
  try {
    if (confined && missingStep(confined) !== undefined) return undefined
  } catch (error) {
    return sentence(error)
  }
  return findStat(path) ? path : undefined
}
