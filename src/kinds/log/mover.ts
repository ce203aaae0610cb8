import { dirname } from 'node:path'
import { type EbbError, errno } from '../../core/model/errors.ts'
import type { Inode } from '../../core/model/identity.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Ctx } from '../../core/ports/kind.ts'
import { findStat, inodeOf, isSame, makeParents, mountAt, refused } from '../../host/path.ts'
import { ignore, sizeOf } from './files.ts'
import { type Holder, Holders } from './holders.ts'
import { confinedOf, findCopy, type LogRef, requireOwn } from './place.ts'

export interface MoverDeps {
  readonly effects: Effects
  readonly onBytes?: (what: 'archived' | 'freed', bytes: number) => void
  readonly holders?: Pick<Holders, 'find'>
}

/**
 * Archives a complete log. The log is moved, except in two cases: another process has it open, and could write into the archive later; or
 * the archive is on another file system. Then the log is copied, and the original is removed when the copy is durable. The archive is first
 * made as a hard link to the log or to its copy. So no existing file is overwritten, and after a crash both names show the same file. After
 * a failure the log is still at its path (G8).
 */
export class Mover {
  readonly #deps: MoverDeps
  readonly #holders: Pick<Holders, 'find'>
  /** Copies that run, or are complete and not yet linked as the archive. A copy may outlast its close; the next close uses it. */
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
    const [holders] = await Promise.all([this.#holders.find(ref.path), effects.flush(ref.path)])
    // The caller no longer waits, so another close may already work on the log.
    if (ctx.signal.aborted) return
    requireOwn(ref)
    this.#makeFolder(ref)
    const bytes = sizeOf(ref.path)
    // After a crash the archive may have been linked already. Then only the other names have to be removed.
    const isLinked = isSameFile(ref.archive, ref.path) || isSameFile(ref.archive, ref.staging)
    if (holders.length > 0 && !isLinked) ctx.note?.(`It was copied to the archive instead of moved, because ${named(holders)} open.`)
    const isArchived = isLinked || (holders.length === 0 && this.#move(ref)) || (await this.#copy(ref, ctx))
    if (!isArchived) return
    await effects.flush(dirname(ref.archive))
    // The log is removed only after the flush, so that a power cut leaves the log or its archive.
    if (ctx.signal.aborted) return
    this.#removeArchived(ref, inodeOf(log))
    if (findCopy(ref) !== undefined) ignore('ENOENT', () => effects.unlink(ref.staging))
    onBytes?.('archived', bytes)
  }

  /** Forgets the copy of a log that was removed. */
  forget(ref: LogRef): void {
    this.#copies.delete(ref.mark.resourceId)
  }

  #makeFolder(ref: LogRef): void {
    const { effects } = this.#deps
    const confined = confinedOf(ref, 'archive')
    if (confined) makeParents(effects, confined)
    else ignore('EEXIST', () => effects.makeDirectory(dirname(ref.archive), 0o700))
  }

  /** Links the log as the archive. False when the archive is on another file system. */
  #move(ref: LogRef): boolean {
    try {
      this.#link(ref, ref.path)
      return true
    } catch (error) {
      if (errno(error) === 'EXDEV') return false
      throw error
    }
  }

  /** Gives the log or its copy the name of the archive. Throws when that name is taken. */
  #link(ref: LogRef, from: string): void {
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
    this.#link(ref, ref.staging)
    return true
  }

  async #startCopy(ref: LogRef): Promise<void> {
    const { effects } = this.#deps
    const removeStaged = (): void => ignore('ENOENT', () => effects.unlink(ref.staging))
    // A file that is mounted over the log hides it and must not be archived. A move needs no check, because the kernel refuses it.
    if (mountAt(ref.path) !== undefined) throw refused(ref.path, 'something is mounted there; unmount it')
    try {
      removeStaged()
      await effects.copy(ref.path, ref.staging)
    } catch (error) {
      try {
        if (errno(error) !== 'EEXIST') removeStaged()
      } catch {
        // An error of the removal is ignored: the error of the copy is the one to report. The next copy begins by removing the file.
      }
      throw error
    }
  }

  /**
   * Removes the archived log. It may be gone already, with its folder. Another file that appeared at its path was not archived, and
   * stays.
   */
  #removeArchived(ref: LogRef, archived: Inode): void {
    const now = findStat(ref.path)
    if (!now) return
    requireOwn(ref)
    if (!isSame(now, archived))
      throw refused(ref.path, 'another file appeared there while the log was archived; check that file, and remove it')
    ignore('ENOENT', () => this.#deps.effects.unlink(ref.path))
  }
}

function isSameFile(path: string, otherPath: string): boolean {
  const stat = findStat(path)
  return stat !== undefined && isSame(findStat(otherPath), inodeOf(stat))
}

/** The errors of link(2) on a file system without hard links, or for a file that may have none. */
function isWithoutLinks(error: unknown): boolean {
  return ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'].includes(errno(error) ?? '')
}

function taken({ archive }: LogRef): EbbError {
  return refused(archive, 'the log must be archived there, and another file exists already; check that file, and move it away')
}

/** The report names at most this many holders. */
const maxNamed = 5

function named(holders: readonly Holder[]): string {
  const names = holders.slice(0, maxNamed).map(({ pid, program }) => `${program} (pid ${pid})`)
  const more = holders.length - names.length
  return `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''} ${holders.length === 1 ? 'has' : 'have'} it`
}
