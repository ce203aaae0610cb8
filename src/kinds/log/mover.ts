import { dirname } from 'node:path'
import { type EbbError, errno } from '../../core/model/errors.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Ctx } from '../../core/ports/kind.ts'
import { findStat, type Inode, inodeOf, isSame, makeParents, mountAt, refused } from '../../host/path.ts'
import { ignore, sizeOf } from './files.ts'
import { type Holder, Holders } from './holders.ts'
import { copyThere, type LogRef, requireOwn, wayTo } from './place.ts'

export interface MoverDeps {
  readonly effects: Effects
  readonly onBytes?: (what: 'archived' | 'freed', bytes: number) => void
  readonly holders?: Pick<Holders, 'find'>
}

/**
 * Takes a complete log to its archive. It is moved, unless somebody else has it open, who could write into the archive
 * later, or the archive is on another file system: then it is copied, and the original goes when the copy is durable.
 * Either way the archive is first a second name, of the log or of its copy, so that nothing that is there already is
 * overwritten, and whoever comes after a crash sees that it is the same file. What fails leaves the log where it is (G8).
 */
export class Mover {
  readonly #deps: MoverDeps
  readonly #holders: Pick<Holders, 'find'>
  /** Copies that run, or are complete and not yet in their place: one that outlasts its close is there for the next. */
  readonly #copies = new Map<string, Promise<void>>()

  constructor(deps: MoverDeps) {
    this.#deps = deps
    this.#holders = deps.holders ?? new Holders()
  }

  async archive(ref: LogRef, ctx: Ctx): Promise<void> {
    const { effects, onBytes } = this.#deps
    requireOwn(ref)
    const log = findStat(ref.path)
    if (!log) return
    const [strangers] = await Promise.all([this.#holders.find(ref.path), effects.flush(ref.path)])
    // It took too long, or nobody wants it any more: what is done to the log now is somebody else's to do.
    if (ctx.signal.aborted) return
    requireOwn(ref)
    this.#makeFolder(ref)
    const bytes = sizeOf(ref.path)
    // Whoever died after the archive had got its name has only to take away the others.
    const isThere = isSameFile(ref.archive, ref.path) || isSameFile(ref.archive, ref.staging)
    if (strangers.length > 0 && !isThere) ctx.note?.(`It was copied to the archive instead of moved, because ${named(strangers)} open.`)
    const isArchived = isThere || (strangers.length === 0 && this.#move(ref)) || (await this.#copy(ref, ctx))
    if (!isArchived) return
    await effects.flush(dirname(ref.archive))
    // Only now: a power cut leaves the one or the other.
    if (ctx.signal.aborted) return
    this.#removeArchived(ref, inodeOf(log))
    if (copyThere(ref) !== undefined) ignore('ENOENT', () => effects.unlink(ref.staging))
    onBytes?.('archived', bytes)
  }

  /** What is left of a copy, once its log is gone. */
  forget(ref: LogRef): void {
    this.#copies.delete(ref.mark.resourceId)
  }

  #makeFolder(ref: LogRef): void {
    const { effects } = this.#deps
    const way = wayTo(ref, 'archive')
    if (way) makeParents(effects, way)
    else ignore('EEXIST', () => effects.makeDirectory(dirname(ref.archive), 0o700))
  }

  /** False where the archive is on another file system. */
  #move(ref: LogRef): boolean {
    try {
      this.#name(ref, ref.path)
      return true
    } catch (error) {
      if (errno(error) === 'EXDEV') return false
      throw error
    }
  }

  /** The archive gets its name, where nothing has it; the log, or its copy, is that file from then on. */
  #name(ref: LogRef, from: string): void {
    try {
      this.#deps.effects.link(from, ref.archive)
    } catch (error) {
      if (errno(error) === 'EEXIST' || (isWithoutLinks(error) && findStat(ref.archive))) throw taken(ref)
      if (!isWithoutLinks(error)) throw error
      this.#deps.effects.rename(from, ref.archive)
    }
  }

  async #copy(ref: LogRef, ctx: Ctx): Promise<boolean> {
    const id = ref.mark.resourceId
    const running = this.#copies.get(id) ?? this.#startCopy(ref)
    this.#copies.set(id, running)
    try {
      await running
    } catch (error) {
      this.#copies.delete(id)
      throw error
    }
    if (ctx.signal.aborted) return false
    this.#copies.delete(id)
    requireOwn(ref)
    this.#makeFolder(ref)
    this.#name(ref, ref.staging)
    return true
  }

  async #startCopy(ref: LogRef): Promise<void> {
    const { effects } = this.#deps
    const removeStaged = (): void => ignore('ENOENT', () => effects.unlink(ref.staging))
    // What hides the log is not the log; a move of it is refused by the kernel.
    if (mountAt(ref.path) !== undefined) throw refused(ref.path, 'something is mounted there; unmount it')
    try {
      removeStaged()
      await effects.copy(ref.path, ref.staging)
    } catch (error) {
      try {
        if (errno(error) !== 'EEXIST') removeStaged()
      } catch {
        // What went wrong first is what has to be told; the next copy begins with removing it.
      }
      throw error
    }
  }

  /** Nothing may be there any more, perhaps not even the folder. What has come to its place meanwhile was not archived, and stays. */
  #removeArchived(ref: LogRef, archived: Inode): void {
    const now = findStat(ref.path)
    if (!now) return
    requireOwn(ref)
    if (!isSame(now, archived))
      throw refused(ref.path, 'something else has come to its place while it was archived; look at it, and remove it')
    ignore('ENOENT', () => this.#deps.effects.unlink(ref.path))
  }
}

function isSameFile(one: string, other: string): boolean {
  const stat = findStat(one)
  return stat !== undefined && isSame(findStat(other), inodeOf(stat))
}

/** As link(2) says that a file system has no second names, or not for this file. */
function isWithoutLinks(error: unknown): boolean {
  return ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'].includes(errno(error) ?? '')
}

function taken({ archive }: LogRef): EbbError {
  return refused(archive, 'the log is to be archived there, and something is there already; look at it, and move it away')
}

/** A few are enough to know where to look. */
const namedAtMost = 5

function named(holders: readonly Holder[]): string {
  const names = holders.slice(0, namedAtMost).map(({ pid, program }) => `${program} (pid ${pid})`)
  const more = holders.length - names.length
  return `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''} ${holders.length === 1 ? 'has' : 'have'} it`
}
