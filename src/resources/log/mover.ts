import { dirname } from 'node:path'
import { errno } from '../../domain/errors.ts'
import type { Effects } from '../../ports/effects.ts'
import type { Ctx } from '../../ports/kind.ts'
import { lookAt, makeWay } from '../path.ts'
import { ignore, sizeOf } from './files.ts'
import { type Holder, Holders } from './holders.ts'
import { type LogRef, requireOwn, wayTo } from './place.ts'

export interface MoverDeps {
  readonly effects: Effects
  readonly onBytes?: (what: 'archived' | 'freed', bytes: number) => void
  readonly holders?: Pick<Holders, 'find'>
}

/**
 * Takes a complete log to its archive. It is moved, unless somebody else has it open, who could write into the archive
 * later, or the archive is on another file system: then it is copied, and the original goes when the copy is durable.
 * What fails leaves the log where it is (G8).
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
    const log = lookAt(ref.path)
    if (!log) return
    const [strangers] = await Promise.all([this.#holders.find(log), effects.flush(ref.path)])
    // It took too long, or nobody wants it any more: what is done to the log now is somebody else's to do.
    if (ctx.signal.aborted) return
    requireOwn(ref)
    this.#makeFolder(ref)
    const bytes = sizeOf(ref.path)
    if (strangers.length > 0) ctx.note?.(`It was copied to the archive instead of moved, because ${named(strangers)} open.`)
    const isArchived = strangers.length === 0 && this.#move(ref) ? true : await this.#copy(ref, ctx)
    if (!isArchived) return
    onBytes?.('archived', bytes)
    await effects.flush(dirname(ref.archive))
    // Only now: a power cut leaves the one or the other.
    if (!ctx.signal.aborted) ignore('ENOENT', () => this.#removeCopied(ref))
  }

  /** What is left of a copy, once its log is gone. */
  forget(ref: LogRef): void {
    this.#copies.delete(ref.mark.resourceId)
  }

  #makeFolder(ref: LogRef): void {
    const { effects } = this.#deps
    const way = wayTo(ref, 'archive')
    if (way) makeWay(effects, way)
    else ignore('EEXIST', () => effects.makeDirectory(dirname(ref.archive), 0o700))
  }

  #move(ref: LogRef): boolean {
    try {
      this.#deps.effects.rename(ref.path, ref.archive)
      return true
    } catch (error) {
      if (errno(error) === 'EXDEV') return false
      throw error
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
    this.#deps.effects.rename(ref.staging, ref.archive)
    return true
  }

  async #startCopy(ref: LogRef): Promise<void> {
    const { effects } = this.#deps
    const removeStaged = (): void => ignore('ENOENT', () => effects.unlink(ref.staging))
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

  /** After a move nothing is there any more, perhaps not even the folder: whoever left it last took it away. */
  #removeCopied(ref: LogRef): void {
    if (!lookAt(ref.path)) return
    requireOwn(ref)
    this.#deps.effects.unlink(ref.path)
  }
}

/** A few are enough to know where to look. */
const namedAtMost = 5

function named(holders: readonly Holder[]): string {
  const names = holders.slice(0, namedAtMost).map(({ pid, program }) => `${program} (pid ${pid})`)
  const more = holders.length - names.length
  return `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''} ${holders.length === 1 ? 'has' : 'have'} it`
}
