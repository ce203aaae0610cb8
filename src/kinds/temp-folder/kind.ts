import { type BigIntStats, existsSync, lstat, readdirSync, readlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { EbbError, errno } from '../../core/model/errors.ts'
import { isSafeId, scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Intent, type Presence, type Proof, present, unknown } from '../../core/model/resource.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Host } from '../../core/ports/host.ts'
import type { CreateCtx, Created, Ctx, Found, Owner, ResourceKind, StepEffect } from '../../core/ports/kind.ts'
import { type TempFolderSpec, tempFolderOf } from '../../core/ports/temp.ts'
import { findStat, type Inode, inodeOf, isSame, refused } from '../../host/path.ts'

/**
 * The temp folder of one agent, in the system's. Its name cannot be guessed, so nothing else is at its place when it is
 * made, and it needs no record in between. Before it there is a pointer to it in the home, a link that nobody follows:
 * whoever has lost the database finds the folder by that, without a search among everybody's.
 */
export interface TempFolderRef {
  readonly id: string
  readonly path: string
  readonly pointer: string
  /** Of the folder that was made; unknown where the launch did not come that far. */
  readonly inode: Inode | undefined
}

export interface TempFolderDeps {
  readonly effects: Effects
  readonly host: Pick<Host, 'installation' | 'incarnationId'>
  /** Of the home: for the pointers. */
  readonly directory: string
}

const suffix = '.temp'
const separator = '~'

export class TempFolderKind implements ResourceKind<TempFolderSpec, TempFolderRef> {
  readonly kind = 'temp-folder'
  readonly outlivesPower = true
  readonly #deps: TempFolderDeps
  /** Something else was at their place before we were: it is not ours to touch. */
  readonly #taken = new Set<string>()
  /** Removals under way; one of hundreds of thousands of files outlasts the patience of a step. */
  readonly #removals = new Map<string, Promise<void>>()
  #hasMade = false

  constructor(deps: TempFolderDeps) {
    this.#deps = deps
  }

  name({ id, incarnation, spec, detail }: Pick<Intent<TempFolderSpec>, 'id' | 'incarnation' | 'spec' | 'detail'>): TempFolderRef {
    const pointer = join(this.#deps.directory, `${incarnation}${separator}${id}${suffix}`)
    return { id, path: tempFolderOf(spec.base, scopeOfResource(id)), pointer, inode: detail as Inode | undefined }
  }

  describe(ref: TempFolderRef): string {
    return ref.path
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  async create(ref: TempFolderRef, _spec: TempFolderSpec, _ctx: CreateCtx): Promise<Created> {
    const { effects } = this.#deps
    this.#hasMade = true
    effects.point(ref.pointer, ref.path)
    try {
      effects.makeDirectory(ref.path, 0o700)
    } catch (error) {
      if (errno(error) !== 'EEXIST') throw errno(error) === undefined ? error : cannotMake(ref.path, error)
      this.#taken.add(ref.id)
      throw refused(ref.path, 'something is there already, and it is not ours')
    }
    // Node's threads are there from now on: they could not be started in the middle of a close, when no pid is left (G12).
    lstat(ref.path, () => {})
    const made = findStat(ref.path)
    if (!made) throw refused(ref.path, 'it vanished while it was being made')
    return { detail: inodeOf(made) }
  }

  async observe(ref: TempFolderRef, ctx: Ctx): Promise<Presence> {
    const stat = this.#taken.has(ref.id) ? undefined : findStat(ref.path)
    if (stat && isOurs(ref, stat)) return present(ref.path)
    if (stat && isSame(stat, ref.inode))
      return unknown(`${ref.path} belongs to somebody else by now; remove it as that user, or give it back with chown`)
    if (findStat(ref.pointer)) return present(ref.pointer)
    const method = this.#taken.has(ref.id) ? 'never made, because its place was taken' : 'no such folder'
    return absent({ method: stat ? 'something of somebody else is at its place' : method, strength: 'kernel', at: ctx.clock.wall() })
  }

  async release(ref: TempFolderRef): Promise<StepEffect> {
    const stat = this.#taken.has(ref.id) ? undefined : findStat(ref.path)
    if (stat && isOurs(ref, stat)) await this.#remove(ref.path, stat)
    // Last: until the folder is gone, this is how it is found.
    ignoreMissing(() => this.#deps.effects.unlink(ref.pointer))
    return {}
  }

  /** Whoever asks while it is being removed waits for the same removal. */
  #remove(path: string, stat: BigIntStats): Promise<void> {
    const known = this.#removals.get(path)
    if (known) return known
    const { effects } = this.#deps
    const removal = (async () => {
      // What its agent has put there instead of the folder: a link is removed, not what it leads to.
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

  async *list(owner: Owner): AsyncIterable<Found> {
    const { directory, host } = this.#deps
    // Of our own life we know that there are none: somebody else's command is not kept waiting for a look.
    if (owner.incarnation === host.incarnationId && !this.#hasMade) return
    if (owner.installation !== host.installation) return
    for (const file of existsSync(directory) ? readdirSync(directory) : []) {
      if (!file.endsWith(suffix)) continue
      const [incarnation = '', id = ''] = file.slice(0, -suffix.length).split(separator)
      if (!isSafeId(id) || (owner.incarnation !== undefined && owner.incarnation !== incarnation)) continue
      if (owner.scopeIds && !owner.scopeIds.has(scopeOfResource(id))) continue
      const path = targetOf(join(directory, file))
      const base = path === undefined ? undefined : dirname(path)
      // A pointer that leads anywhere but to the folder of its own id is none of ours.
      if (path === undefined || base === undefined || path !== tempFolderOf(base, scopeOfResource(id))) continue
      yield { resourceId: id, incarnation, name: path, spec: { installation: owner.installation, base } satisfies TempFolderSpec }
    }
  }
}

/**
 * Nobody can guess its name, and nobody else can take its place while it is there: what is ours by its owner came from us, or
 * from the agent, which may have put something else there. Before that, only a folder can be ours.
 */
function isOurs({ inode }: TempFolderRef, stat: BigIntStats): boolean {
  return Number(stat.uid) === process.getuid?.() && (stat.isDirectory() || inode !== undefined)
}

function targetOf(pointer: string): string | undefined {
  try {
    return readlinkSync(pointer)
  } catch (error) {
    // Gone meanwhile, or no link.
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
