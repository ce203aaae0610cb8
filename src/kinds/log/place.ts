import { basename, join } from 'node:path'
import { sentence } from '../../core/model/errors.ts'
import type { Mark } from '../../core/model/identity.ts'
import type { Intent } from '../../core/model/resource.ts'
import type { LogSpec } from '../../core/ports/process.ts'
import { type Confined, confine, findStat, missingStep, refused, requireOwnPath, stagingPath } from '../../host/path.ts'

/** Where a log and its archive are, from the intent alone; and what is there now. */

export interface LogRef extends LogSpec {
  readonly mark: Mark
  readonly path: string
  /** Always in the home: a workspace is read by others, and a pipe would keep them waiting. */
  readonly pipe: string
  /** Where a copy is until it is complete. */
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

/** What has to be walked without a link; a log in the home lies where only we write. */
export function wayTo({ inside }: LogSpec, what: 'path' | 'archive'): Confined | undefined {
  return inside && { workspace: inside.workspace, path: inside[what] }
}

/** What is there of the log itself, or why that cannot be told: a way that leads through a link is not ours to look along (G10). */
export function logThere(ref: LogRef): string | undefined {
  return thereAt(ref.path, wayTo(ref, 'path'))
}

/** The same of everything that belongs to it but its archive. */
export function anythingThere(ref: LogRef): string | undefined {
  return logThere(ref) ?? copyThere(ref) ?? (findStat(ref.pipe) && ref.pipe)
}

/** A copy that is not complete. Where the way to it leads elsewhere by now, nothing of ours is known. */
export function copyThere(ref: LogRef): string | undefined {
  return thereAt(ref.staging, wayTo(ref, 'archive')) === ref.staging ? ref.staging : undefined
}

/** In a workspace anybody may have put something else at its place, or on the way: that is neither archived nor removed (G10). */
export function requireOwn(ref: LogRef): void {
  const way = wayTo(ref, 'path')
  if (!way) return
  requireOwnPath(way)
  if (findStat(ref.path)?.isFile() === false) throw refused(ref.path, 'it is not a file any more; look at what is there, and remove it')
}

function thereAt(path: string, way: Confined | undefined): string | undefined {
  try {
    if (way && missingStep(way) !== undefined) return undefined
  } catch (error) {
    return sentence(error)
  }
  return findStat(path) ? path : undefined
}
