import { lstatSync, opendirSync, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { EbbError, errno } from '../../core/model/errors.ts'
import type { Inode } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Intent, type Presence, type Proof, present } from '../../core/model/resource.ts'
import type { Effects } from '../../core/ports/effects.ts'
import { type FolderSpec, folderKind } from '../../core/ports/folder.ts'
import {
  type CreateCtx,
  type Created,
  type Ctx,
  type IntentOf,
  isOfKind,
  type LabelledKind,
  type StepEffect,
} from '../../core/ports/kind.ts'
import { confine, findStat, inodeOf, isSame, refused, stagingPath } from '../../host/path.ts'

/**
 * The folders of a workspace: the shared folder, an own folder in it, and the rooms, which are the folders that files of the agents need.
 * The folders are made when they are needed. Their last user removes those that are empty. A folder that is not empty stays and no longer
 * belongs to Ebb: a person has put something there, or it holds an archive.
 */
export interface FolderRef extends FolderSpec {
  readonly id: string
  readonly sharedPath: string
  readonly ownPath: string
  readonly staging: string
  /** The inode of the shared folder, if an Ebb made it. */
  readonly mark: Inode | undefined
}

/** Another Ebb may remove the shared folder between the two steps of a creation. After this many attempts the creation fails. */
const maxAttempts = 5

export class FolderKind implements LabelledKind<typeof folderKind, FolderRef> {
  readonly kind = folderKind
  readonly label = { title: 'Workspace folder' }
  readonly outlivesPower = true
  readonly #effects: Effects
  /** The ids of the resources that use each own folder at the moment. While a folder has a user, no other resource removes it. */
  readonly #users = new Map<string, Set<string>>()

  constructor(effects: Effects) {
    this.#effects = effects
  }

  name(intent: IntentOf<typeof folderKind>): FolderRef {
    return refOf(intent)
  }

  describe(ref: FolderRef): string {
    return ref.ownPath
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  async create(ref: FolderRef, spec: FolderSpec, ctx: CreateCtx<typeof folderKind>): Promise<Created<typeof folderKind>> {
    requireFolder(spec.base)
    if (!spec.isNew) this.#enter(ref)
    const { known } = ctx.live
    for (let attempt = 1; ; attempt++) {
      const mark = await this.#share(ref, known, ctx)
      try {
        this.#makeOwn(ref, spec.isNew ?? false)
        return { detail: { ...(mark && { shared: mark }) } }
      } catch (error) {
        if (errno(error) !== 'ENOENT' || attempt === maxAttempts) throw error
      }
    }
  }

  /** Makes the shared folder, or takes the existing one. Returns its inode if an Ebb made it, now or earlier. */
  async #share(ref: FolderRef, known: Inode | undefined, ctx: CreateCtx<typeof folderKind>): Promise<Inode | undefined> {
    const existing = findStat(ref.sharedPath)
    if (existing) {
      requireOwn(ref.sharedPath)
      const mark = [ref.mark, known].find((inode) => isSame(existing, inode))
      // The inode is recorded in the ledger before anything is in the folder. From now on this resource may remove the shared folder, too.
      if (mark) await ctx.record({ shared: mark })
      return mark
    }
    this.#ignoring('EEXIST', () => this.#effects.makeDirectory(ref.staging, 0o700))
    const staged = findStat(ref.staging)
    if (!staged) throw refused(ref.staging, 'it vanished while it was being made')
    const mark = inodeOf(staged)
    await ctx.record({ shared: mark })
    // The path is checked again, because the write to the ledger took time, and rename(2) replaces an empty folder without an error.
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
    const existing = findStat(ref.ownPath)
    if (existing && isNew) throw refused(ref.ownPath, 'a file or folder that Ebb did not make exists there already')
    if (!existing) this.#effects.makeDirectory(ref.ownPath, 0o700)
    requireOwn(ref.ownPath)
  }

  /** Registers the user of the folder again after a restart. */
  async resume(ref: FolderRef): Promise<undefined> {
    if (!ref.isNew) this.#enter(ref)
  }

  #enter({ id, ownPath }: FolderRef): void {
    this.#users.set(ownPath, (this.#users.get(ownPath) ?? new Set()).add(id))
  }

  #leave({ id, ownPath }: FolderRef): void {
    const users = this.#users.get(ownPath)
    users?.delete(id)
    if (users?.size === 0) this.#users.delete(ownPath)
  }

  async observe(ref: FolderRef, ctx: Ctx): Promise<Presence> {
    const users = this.#users.get(ref.ownPath)
    if (users?.has(ref.id)) return present(ref.ownPath)
    if (findStat(ref.staging)) return present(ref.staging)
    const gone = (method: string): Presence => absent({ method, strength: 'kernel', at: ctx.clock.wall() })
    if (users) return gone('other agents use it, and the last one removes it')
    const [left] = removable(ref)
    if (left !== undefined) return present(left)
    return gone(findStat(ref.ownPath) ? 'the folders that are left are not empty, or Ebb did not make them' : 'no such folder')
  }

  async release(ref: FolderRef): Promise<StepEffect> {
    this.#leave(ref)
    // On a read-only file system rmdir(2) fails with EROFS also for a missing folder, so its existence is checked first.
    if (findStat(ref.staging)) this.#ignoring('ENOENT', () => this.#effects.removeDirectory(ref.staging))
    if (this.#users.has(ref.ownPath)) return {}
    // A folder that was empty a moment ago may be gone (ENOENT) or in use (ENOTEMPTY) by now, so both errors are ignored.
    for (const path of removable(ref))
      this.#ignoring('ENOENT', () => this.#ignoring('ENOTEMPTY', () => this.#effects.removeDirectory(path)))
    return {}
  }

  /** Repeats the removal for a released resource: another resource of its agent was removed since, so a folder may be empty now. */
  async leave(resource: Pick<Intent, 'id' | 'kind' | 'spec' | 'detail'>): Promise<void> {
    if (isOfKind(folderKind, resource)) await this.release(refOf(resource))
  }

  async gone(ref: FolderRef, ctx: Ctx): Promise<Proof> {
    const seen = await this.observe(ref, ctx)
    if (seen.is !== 'absent') throw new Error(`${ref.ownPath} is still there`)
    return seen.proof
  }

  /** Lists nothing: workspaces belong to users and are not searched. The folders are found through the ledger. */
  async *list(): AsyncIterable<never> {}

  #ignoring(code: string, effect: () => void): void {
    try {
      effect()
    } catch (error) {
      if (errno(error) !== code) throw error
    }
  }
}

function refOf({ spec, id, detail }: Pick<IntentOf<typeof folderKind>, 'id' | 'spec' | 'detail'>): FolderRef {
  const sharedPath = confine({ workspace: spec.base, path: spec.shared })
  const ownPath = confine({ workspace: spec.base, path: `${spec.shared}/${spec.own}` })
  for (const room of spec.rooms) confine({ workspace: ownPath, path: room })
  return { ...spec, id, sharedPath, ownPath, staging: stagingPath(sharedPath, id), mark: detail?.shared }
}

/** Throws unless `base` is the absolute path of an existing folder. */
export function requireFolder(base: string): void {
  if (!isAbsolute(base)) throw cannotBegin(base, 'it must be absolute')
  const stat = statSync(base, { throwIfNoEntry: false })
  if (!stat) throw cannotBegin(base, 'it does not exist')
  if (!stat.isDirectory()) throw cannotBegin(base, 'it is not a folder')
}

function cannotBegin(base: string, why: string): EbbError {
  return new EbbError(
    'path_refused',
    `The folder ${JSON.stringify(base)} cannot be used: ${why}. Give the absolute path of an existing folder.`,
  )
}

/** Throws for a symlink, a file, or a folder of another user (G10). */
function requireOwn(path: string): void {
  const stat = lstatSync(path)
  if (!stat.isDirectory()) throw refused(path, 'it is a link or a file, not a folder')
  if (stat.uid !== process.getuid?.()) throw refused(path, 'it belongs to another user')
}

function isOwn(path: string): boolean {
  const stat = findStat(path)
  return stat?.isDirectory() === true && Number(stat.uid) === process.getuid?.()
}

/** The folders that may be removed, deepest first. Each is empty, or will be after those before it were removed. */
function removable(ref: FolderRef): readonly string[] {
  // Each folder on the path is checked: a symlink would lead to foreign folders.
  if (!isOwn(ref.sharedPath)) return []
  const isOurs = isSame(findStat(ref.sharedPath), ref.mark)
  if (!findStat(ref.ownPath)) return isOurs && holdsOnly(ref.sharedPath, []) ? [ref.sharedPath] : []
  if (!isOwn(ref.ownPath)) return []
  const rooms = ref.rooms.filter((room) => isOwn(join(ref.ownPath, room)) && holdsOnly(join(ref.ownPath, room), []))
  const paths = rooms.map((room) => join(ref.ownPath, room))
  if (!holdsOnly(ref.ownPath, rooms)) return paths
  return isOurs && holdsOnly(ref.sharedPath, [ref.own]) ? [...paths, ref.ownPath, ref.sharedPath] : [...paths, ref.ownPath]
}

/** Whether a folder holds no other entries than `names`. Reads only up to the first other entry, because an archive may hold thousands. */
function holdsOnly(path: string, names: readonly string[]): boolean {
  const folder = opendirSync(path)
  try {
    for (let entry = folder.readSync(); entry; entry = folder.readSync()) if (!names.includes(entry.name)) return false
    return true
  } finally {
    folder.closeSync()
  }
}
