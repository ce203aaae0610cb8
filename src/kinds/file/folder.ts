import { lstatSync, opendirSync, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { EbbError, errno } from '../../core/model/errors.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Intent, type Presence, type Proof, present } from '../../core/model/resource.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { FolderDetail, FolderLive, FolderSpec } from '../../core/ports/folder.ts'
import type { CreateCtx, Created, Ctx, Found, ResourceKind, StepEffect } from '../../core/ports/kind.ts'
import { confine, findStat, type Inode, inodeOf, isSame, refused, stagingPath } from '../../host/path.ts'

/**
 * The folders of a workspace: the shared one, our own in it, and the rooms that its files need. They are made on need,
 * and whoever leaves last takes away those that are empty. What is not empty stays, and is not ours any more: a person
 * has put something there, or an archive is kept in it.
 */
export interface FolderRef extends FolderSpec {
  readonly id: string
  readonly sharedPath: string
  readonly ownPath: string
  readonly staging: string
  /** Of the shared folder, where one of us made it. */
  readonly mark: Inode | undefined
}

/** Another ebb may take the shared folder away as often as this between our two steps, before we wonder. */
const attempts = 5

export class FolderKind implements ResourceKind<FolderSpec, FolderRef> {
  readonly kind = 'folder'
  readonly outlivesPower = true
  readonly #effects: Effects
  /** Who is in which workspace at this moment. What one of them is about to use the others do not take away. */
  readonly #places = new Map<string, Set<string>>()

  constructor(effects: Effects) {
    this.#effects = effects
  }

  name(intent: Pick<Intent<FolderSpec>, 'id' | 'spec' | 'detail'>): FolderRef {
    const { spec, id } = intent
    const sharedPath = confine({ workspace: spec.base, path: spec.shared })
    const ownPath = confine({ workspace: spec.base, path: `${spec.shared}/${spec.own}` })
    for (const room of spec.rooms) confine({ workspace: ownPath, path: room })
    const mark = (intent.detail as FolderDetail | undefined)?.shared as Inode | undefined
    return { ...spec, id, sharedPath, ownPath, staging: stagingPath(sharedPath, id), mark }
  }

  describe(ref: FolderRef): string {
    return ref.ownPath
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  async create(ref: FolderRef, spec: FolderSpec, ctx: CreateCtx): Promise<Created> {
    requireFolder(spec.base)
    if (!spec.isNew) this.#enter(ref)
    const known = (ctx.live as FolderLive | undefined)?.known as Inode | undefined
    for (let attempt = 1; ; attempt++) {
      const mark = await this.#share(ref, known, ctx)
      try {
        this.#makeOwn(ref, spec.isNew ?? false)
        return { detail: { ...(mark && { shared: mark }) } satisfies FolderDetail }
      } catch (error) {
        if (errno(error) !== 'ENOENT' || attempt === attempts) throw error
      }
    }
  }

  /** Its mark, where it is ours: made now, or by one of us before. */
  async #share(ref: FolderRef, known: Inode | undefined, ctx: CreateCtx): Promise<Inode | undefined> {
    const there = findStat(ref.sharedPath)
    if (there) {
      requireOwn(ref.sharedPath)
      const mark = [ref.mark, known].find((one) => isSame(there, one))
      // On the books before anything is in it: from now on it is also ours to take away.
      if (mark) await ctx.record({ shared: mark } satisfies FolderDetail)
      return mark
    }
    this.#ignoring('EEXIST', () => this.#effects.makeDirectory(ref.staging, 0o700))
    const staged = findStat(ref.staging)
    if (!staged) throw refused(ref.staging, 'it vanished while it was being made')
    const mark = inodeOf(staged)
    await ctx.record({ shared: mark } satisfies FolderDetail)
    // The ledger took its time, and rename(2) would replace an empty folder without a word.
    if (!findStat(ref.sharedPath)) {
      this.#effects.rename(ref.staging, ref.sharedPath)
      this.#effects.sync(ref.base)
      return mark
    }
    this.#ignoring('ENOENT', () => this.#effects.removeDirectory(ref.staging))
    return await this.#share(ref, known, ctx)
  }

  #makeOwn(ref: FolderRef, isNew: boolean): void {
    requireOwn(ref.sharedPath)
    const there = findStat(ref.ownPath)
    if (there && isNew) throw refused(ref.ownPath, 'something is there already, and it is not ours')
    if (!there) this.#effects.makeDirectory(ref.ownPath, 0o700)
    requireOwn(ref.ownPath)
  }

  /** The one who lives in it says so again after a restart. */
  async resume(ref: FolderRef): Promise<void> {
    if (!ref.isNew) this.#enter(ref)
  }

  #enter({ id, ownPath }: FolderRef): void {
    this.#places.set(ownPath, (this.#places.get(ownPath) ?? new Set()).add(id))
  }

  #leave({ id, ownPath }: FolderRef): void {
    const inside = this.#places.get(ownPath)
    inside?.delete(id)
    if (inside?.size === 0) this.#places.delete(ownPath)
  }

  async observe(ref: FolderRef, ctx: Ctx): Promise<Presence> {
    const inside = this.#places.get(ref.ownPath)
    if (inside?.has(ref.id)) return present(ref.ownPath)
    if (findStat(ref.staging)) return present(ref.staging)
    const gone = (method: string): Presence => absent({ method, strength: 'kernel', at: ctx.clock.wall() })
    if (inside) return gone('others are in it, and take it away')
    const [left] = removable(ref)
    if (left !== undefined) return present(left)
    return gone(findStat(ref.ownPath) ? 'what is left is not empty, or not ours' : 'no such folder')
  }

  async release(ref: FolderRef): Promise<StepEffect> {
    this.#leave(ref)
    // Where nothing can be written, rmdir(2) would not say that it is not there.
    if (findStat(ref.staging)) this.#ignoring('ENOENT', () => this.#effects.removeDirectory(ref.staging))
    if (this.#places.has(ref.ownPath)) return {}
    // Looked at anew before each: what is empty by now may be gone, or used, by then.
    for (const path of removable(ref))
      this.#ignoring('ENOENT', () => this.#ignoring('ENOTEMPTY', () => this.#effects.removeDirectory(path)))
    return {}
  }

  /** For one that is released: something else of its agent has gone since, and what it was in may be empty now. */
  async leave(resource: Pick<Intent, 'id' | 'spec' | 'detail'>): Promise<void> {
    await this.release(this.name(resource as Pick<Intent<FolderSpec>, 'id' | 'spec' | 'detail'>))
  }

  async gone(ref: FolderRef, ctx: Ctx): Promise<Proof> {
    const seen = await this.observe(ref, ctx)
    if (seen.is !== 'absent') throw new Error(`${ref.ownPath} is still there`)
    return seen.proof
  }

  /** A folder of a person's is not ours to search: ours are found through the ledger. */
  async *list(): AsyncIterable<Found> {}

  #ignoring(code: string, effect: () => void): void {
    try {
      effect()
    } catch (error) {
      if (errno(error) !== code) throw error
    }
  }
}

/** Absolute, there, and a folder; else a refusal that says what to do. */
export function requireFolder(base: string): void {
  if (!isAbsolute(base)) throw cannotBegin(base, 'it must be absolute')
  const stat = statSync(base, { throwIfNoEntry: false })
  if (!stat) throw cannotBegin(base, 'it does not exist')
  if (!stat.isDirectory()) throw cannotBegin(base, 'it is not a folder')
}

function cannotBegin(base: string, why: string): EbbError {
  return new EbbError(
    'path_refused',
    `The folder ${JSON.stringify(base)} cannot be used: ${why}. Give the absolute path of a folder that is there.`,
  )
}

/** No link, no file, nobody else's (G10). */
function requireOwn(path: string): void {
  const stat = lstatSync(path)
  if (!stat.isDirectory()) throw refused(path, 'it is a link or a file, not a folder')
  if (stat.uid !== process.getuid?.()) throw refused(path, 'it belongs to somebody else')
}

function isOwn(path: string): boolean {
  const stat = findStat(path)
  return stat?.isDirectory() === true && Number(stat.uid) === process.getuid?.()
}

/** What is ours and empty, or will be when those before it in the list are gone: the deepest first. */
function removable(ref: FolderRef): readonly string[] {
  // Each step of the way is looked at: behind a link would be somebody else's folders.
  if (!isOwn(ref.sharedPath)) return []
  const isOurs = isSame(findStat(ref.sharedPath), ref.mark)
  if (!findStat(ref.ownPath)) return isOurs && holdsOnly(ref.sharedPath, []) ? [ref.sharedPath] : []
  if (!isOwn(ref.ownPath)) return []
  const rooms = ref.rooms.filter((room) => isOwn(join(ref.ownPath, room)) && holdsOnly(join(ref.ownPath, room), []))
  const paths = rooms.map((room) => join(ref.ownPath, room))
  if (!holdsOnly(ref.ownPath, rooms)) return paths
  return isOurs && holdsOnly(ref.sharedPath, [ref.own]) ? [...paths, ref.ownPath, ref.sharedPath] : [...paths, ref.ownPath]
}

/** An archive may hold thousands; one that is not among these is enough. */
function holdsOnly(path: string, names: readonly string[]): boolean {
  const folder = opendirSync(path)
  try {
    for (let entry = folder.readSync(); entry; entry = folder.readSync()) if (!names.includes(entry.name)) return false
    return true
  } finally {
    folder.closeSync()
  }
}
