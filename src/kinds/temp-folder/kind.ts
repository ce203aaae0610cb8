import { type BigIntStats, existsSync, lstat, readdirSync, readlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { EbbError, errno } from '../../core/model/errors.ts'
import { type Inode, isSafeId, scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Presence, type Proof, present, unknown } from '../../core/model/resource.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Host } from '../../core/ports/host.ts'
import {
  type CreateCtx,
  type Created,
  type Ctx,
  type Found,
  type IntentOf,
  kindName,
  type LabelledKind,
  type Owner,
  type StepEffect,
} from '../../core/ports/kind.ts'
import { findStat, inodeOf, isSame, refused } from '../../host/path.ts'

/**
 * The temp folder of one agent, in the temp folder of the system. Its name cannot be guessed, so no other program makes it first, and its
 * inode needs no record before it is complete. A symlink to it in the home is made before it and never followed. When the database is lost,
 * the folder is found by this symlink, without a search of the system's temp folder.
 */
export interface TempFolderSpec {
  readonly installation: string
  /** The system's folder for temporary files at the time of the launch. The system may use another folder by now. */
  readonly base: string
}

export const tempFolderKind = kindName<{ spec: TempFolderSpec; detail: Inode }>('temp-folder')

export interface TempFolderRef {
  readonly id: string
  readonly path: string
  /** The symlink in the home that names the folder. */
  readonly symlink: string
  /** The inode of the folder; undefined when the launch failed before the folder was made. */
  readonly inode: Inode | undefined
}

export interface TempFolderDeps {
  readonly effects: Effects
  readonly host: Pick<Host, 'installation' | 'incarnationId'>
  /** The folder in the home for the symlinks. */
  readonly directory: string
}

const suffix = '.temp'
const separator = '~'

export class TempFolderKind implements LabelledKind<typeof tempFolderKind, TempFolderRef> {
  readonly kind = tempFolderKind
  readonly label = { title: 'Temp folder' }
  readonly outlivesPower = true
  readonly #deps: TempFolderDeps
  /** Ids of folders whose path was taken when they were created. What is there does not belong to Ebb and is left alone. */
  readonly #taken = new Set<string>()
  /** Running removals. The removal of hundreds of thousands of files lasts longer than a step of the ladder waits. */
  readonly #removals = new Map<string, Promise<void>>()
  #hasMade = false

  constructor(deps: TempFolderDeps) {
    this.#deps = deps
  }

  name({ id, incarnation, spec, detail }: IntentOf<typeof tempFolderKind>): TempFolderRef {
    const symlink = join(this.#deps.directory, `${incarnation}${separator}${id}${suffix}`)
    return { id, path: tempFolderOf(spec.base, scopeOfResource(id)), symlink, inode: detail }
  }

  describe(ref: TempFolderRef): string {
    return ref.path
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  async create(ref: TempFolderRef, _spec: TempFolderSpec, _ctx: CreateCtx): Promise<Created<typeof tempFolderKind>> {
    const { effects } = this.#deps
    this.#hasMade = true
    effects.point(ref.symlink, ref.path)
    try {
      effects.makeDirectory(ref.path, 0o700)
    } catch (error) {
      if (errno(error) !== 'EEXIST') throw errno(error) === undefined ? error : cannotMake(ref.path, error)
      this.#taken.add(ref.id)
      throw refused(ref.path, 'a file or folder that Ebb did not make exists there already')
    }
    // Starts Node's pool threads now. During a close they could not be started when no pid is free (G12).
    lstat(ref.path, () => {})
    const made = findStat(ref.path)
    if (!made) throw refused(ref.path, 'it vanished while it was being made')
    return { detail: inodeOf(made) }
  }

  async observe(ref: TempFolderRef, ctx: Ctx): Promise<Presence> {
    const stat = this.#taken.has(ref.id) ? undefined : findStat(ref.path)
    if (stat && isOurs(ref, stat)) return present(ref.path)
    if (stat && isSame(stat, ref.inode))
      return unknown(`${ref.path} belongs to another user by now; remove it as that user, or give it back with chown`)
    if (findStat(ref.symlink)) return present(ref.symlink)
    const method = this.#taken.has(ref.id) ? 'never made, because its place was taken' : 'no such folder'
    return absent({ method: stat ? 'a file or folder of another user is at its path' : method, strength: 'kernel', at: ctx.clock.wall() })
  }

  async release(ref: TempFolderRef): Promise<StepEffect> {
    const stat = this.#taken.has(ref.id) ? undefined : findStat(ref.path)
    if (stat && isOurs(ref, stat)) await this.#remove(ref.path, stat)
    // The symlink is removed last: until the folder is gone, it is found by its symlink.
    ignoreMissing(() => this.#deps.effects.unlink(ref.symlink))
    return {}
  }

  /** Removes the folder. A call during a removal of the same folder waits for that removal. */
  #remove(path: string, stat: BigIntStats): Promise<void> {
    const running = this.#removals.get(path)
    if (running) return running
    const { effects } = this.#deps
    const removal = (async () => {
      // The agent may have replaced the folder by a symlink, which is removed without its target.
      if (stat.isDirectory()) await effects.removeFolder(path)
      else ignoreMissing(() => effects.unlink(path))
    })().finally(() => this.#removals.delete(path))
    this.#removals.set(path, removal)
    return removal
  }

  async gone(ref: TempFolderRef, ctx: Ctx): Promise<Proof> {
    await this.#removals.get(ref.path)
    const seen = await this.observe(ref, ctx)
    if (seen.is !== 'absent') throw new Error(`${ref.path} is still there`)
    return seen.proof
  }

  async *list(owner: Owner): AsyncIterable<Found<TempFolderSpec>> {
    const { directory, host } = this.#deps
    // A process that has created no temp folder has none to list. Skipping the listing keeps `ebb exec` fast.
    if (owner.incarnation === host.incarnationId && !this.#hasMade) return
    if (owner.installation !== host.installation) return
    for (const file of existsSync(directory) ? readdirSync(directory) : []) {
      if (!file.endsWith(suffix)) continue
      const [incarnation = '', id = ''] = file.slice(0, -suffix.length).split(separator)
      if (!isSafeId(id) || (owner.incarnation !== undefined && owner.incarnation !== incarnation)) continue
      if (owner.scopeIds && !owner.scopeIds.has(scopeOfResource(id))) continue
      const path = targetOf(join(directory, file))
      const base = path === undefined ? undefined : dirname(path)
      // A symlink that does not name the folder of its own id was not made by Ebb.
      if (path === undefined || base === undefined || path !== tempFolderOf(base, scopeOfResource(id))) continue
      yield { resourceId: id, incarnation, name: path, spec: { installation: owner.installation, base } }
    }
  }
}

/**
 * The path of a scope's temp folder. It is short, because programs create sockets in it, and a socket's path has at most 108 bytes
 * (unix(7)), on macOS 104. It contains all 122 random bits of the id, so it cannot be guessed.
 */
export function tempFolderOf(base: string, scopeId: string): string {
  const isUuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(scopeId)
  return join(base, `ebb-${isUuid ? Buffer.from(scopeId.replaceAll('-', ''), 'hex').toString('base64url') : scopeId}`)
}

/**
 * Whether the temp folder at its path is ours. The name cannot be guessed, and another user cannot replace the folder while it exists. So
 * what is at the path and belongs to this user came from Ebb, or from the agent, which may have replaced the folder. Until the inode is
 * recorded, only a folder can be ours.
 */
function isOurs({ inode }: TempFolderRef, stat: BigIntStats): boolean {
  return Number(stat.uid) === process.getuid?.() && (stat.isDirectory() || inode !== undefined)
}

function targetOf(symlink: string): string | undefined {
  try {
    return readlinkSync(symlink)
  } catch (error) {
    // There is no file at this path, or it is not a symlink.
    if (errno(error) === 'ENOENT' || errno(error) === 'EINVAL') return undefined
    throw error
  }
}

function ignoreMissing(effect: () => void): void {
  try {
    effect()
  } catch (error) {
    if (errno(error) !== 'ENOENT') throw error
  }
}

function cannotMake(path: string, cause: unknown): EbbError {
  return new EbbError(
    'launch_refused',
    `The temp folder ${path} cannot be made (${errno(cause) ?? 'unknown'}); set TMPDIR to a folder that can be written, or give the agent one of its own in configuration.env.`,
    { cause },
  )
}
