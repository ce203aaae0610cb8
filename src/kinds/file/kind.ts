import { dirname } from 'node:path'
import { errno } from '../../core/model/errors.ts'
import type { Inode } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Presence, type Proof, present, unknown } from '../../core/model/resource.ts'
import type { Effects } from '../../core/ports/effects.ts'
import {
  type CreateCtx,
  type Created,
  type Ctx,
  type IntentOf,
  type KindLabel,
  kindName,
  type LabelledKind,
  type StepEffect,
} from '../../core/ports/kind.ts'
import { type Confined, confine, findStat, inodeOf, isSame, mountAt, refused, requireOwnPath, stagingPath } from '../../host/path.ts'

/**
 * A file or directory inside a workspace. It is created under a staging name that contains its id. Then its inode is written to the
 * ledger, and it moves to its final path. So at any moment it is known whether the file at the path is ours; any other is left alone (G10).
 */
export interface PathSpec extends Confined {
  readonly mode?: number
}

export const fileKind = kindName<{ spec: PathSpec; live: string | Uint8Array | undefined; detail: Inode }>('file')
export const directoryKind = kindName<{ spec: PathSpec; detail: Inode }>('directory')
type PathKindName = typeof fileKind | typeof directoryKind

export interface PathRef {
  readonly path: string
  readonly staging: string
  readonly confined: Confined
  readonly inode: Inode | undefined
}

abstract class PathKind implements LabelledKind<PathKindName, PathRef> {
  abstract readonly kind: PathKindName
  abstract readonly label: KindLabel
  readonly outlivesPower = true
  protected readonly effects: Effects

  constructor(effects: Effects) {
    this.effects = effects
  }

  name(intent: IntentOf<PathKindName>): PathRef {
    const path = confine(intent.spec)
    return { path, staging: stagingPath(path, intent.id), confined: intent.spec, inode: intent.detail }
  }

  describe(ref: PathRef): string {
    return ref.path
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  async create(ref: PathRef, spec: PathSpec, ctx: CreateCtx<PathKindName>): Promise<Created<PathKindName>> {
    requireOwnPath(ref.confined)
    requireFree(ref.path)
    this.stage(ref, spec, ctx.live)
    const staged = findStat(ref.staging)
    if (!staged) throw refused(ref.staging, 'it vanished while it was being made')
    const inode = inodeOf(staged)
    await ctx.record(inode)
    // The path is checked again, because the write to the ledger took time, and rename(2) replaces an empty directory without an error.
    requireFree(ref.path)
    this.publish(ref)
    return { detail: inode }
  }

  protected abstract stage(ref: PathRef, spec: PathSpec, content: string | Uint8Array | undefined): void
  protected abstract publish(ref: PathRef): void
  protected abstract remove(path: string): void

  async observe(ref: PathRef, ctx: Ctx): Promise<Presence> {
    if (findStat(ref.staging)) return present(ref.staging)
    const stat = findStat(ref.path)
    if (isSame(stat, ref.inode)) {
      return Number(stat?.uid) === process.getuid?.()
        ? present(ref.path)
        : unknown(`${ref.path} belongs to another user by now; remove it as that user, or give it back with chown`)
    }
    if (stat && mountAt(ref.path) !== undefined) return unknown(`something is mounted over ${ref.path}, and hides it; unmount it first`)
    return absent({ method: stat ? 'another file is at its place' : 'no such path', strength: 'kernel', at: ctx.clock.wall() })
  }

  async release(ref: PathRef): Promise<StepEffect> {
    for (const path of [ref.staging, ref.path]) {
      const stat = findStat(path)
      if (!stat || (path === ref.path && !isSame(stat, ref.inode))) continue
      // A folder on the path may have been replaced by a symlink since the creation. Then `requireOwnPath` throws, and nothing is removed.
      requireOwnPath(ref.confined)
      this.remove(path)
    }
    return {}
  }

  async gone(ref: PathRef, ctx: Ctx): Promise<Proof> {
    const seen = await this.observe(ref, ctx)
    if (seen.is !== 'absent') throw new Error(`${ref.path} is still there`)
    return seen.proof
  }

  /** Lists nothing: workspaces belong to users and are not searched. A path is found through the ledger or not at all. */
  async *list(): AsyncIterable<never> {}
}

export class FileKind extends PathKind {
  readonly kind = fileKind
  readonly label = { title: 'File' }

  protected stage(ref: PathRef, spec: PathSpec, content: string | Uint8Array = ''): void {
    this.effects.createFile(ref.staging, content, spec.mode ?? 0o600)
  }

  /** Moves the file to its path with link(2), which fails when the path exists. rename(2) would overwrite an existing file. */
  protected publish(ref: PathRef): void {
    this.effects.link(ref.staging, ref.path)
    this.effects.unlink(ref.staging)
    this.effects.sync(dirname(ref.path))
  }

  protected remove(path: string): void {
    ignoreMissing(() => this.effects.unlink(path))
  }
}

export class DirectoryKind extends PathKind {
  readonly kind = directoryKind
  readonly label = { title: 'Directory' }

  protected stage(ref: PathRef, spec: PathSpec): void {
    this.effects.makeDirectory(ref.staging, spec.mode ?? 0o700)
  }

  /** rename(2) replaces nothing but an empty directory, and `create` has just checked that the path is free. */
  protected publish(ref: PathRef): void {
    this.effects.rename(ref.staging, ref.path)
    this.effects.sync(dirname(ref.path))
  }

  /** Refuses to cross a mount: what is mounted inside does not belong to Ebb. */
  protected remove(path: string): void {
    const mounted = mountAt(path)
    if (mounted) throw refused(mounted, 'another file system is mounted there; unmount it first')
    this.effects.removeTree(path)
  }
}

function requireFree(path: string): void {
  if (findStat(path)) throw refused(path, 'a file or folder that Ebb did not make exists there already')
}

function ignoreMissing(effect: () => void): void {
  try {
    effect()
  } catch (error) {
    if (errno(error) !== 'ENOENT') throw error
  }
}
