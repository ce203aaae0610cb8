import { constants, existsSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { errno } from '../../domain/errors.ts'
import { chainCookie, cookie, cookieName, isSafeId, type Mark, scopeOfResource } from '../../domain/identity.ts'
import type { LadderStep } from '../../domain/ladder.ts'
import type { Policy } from '../../domain/policy.ts'
import { absent, type Intent, type Presence, type Proof, present } from '../../domain/resource.ts'
import type { Effects } from '../../ports/effects.ts'
import type { CreateCtx, Created, Ctx, Found, Owner, ResourceKind, StepEffect } from '../../ports/kind.ts'
import type { LogHandle, LogSpec } from '../../ports/process.ts'
import type { Tree } from '../process-tree/containment.ts'
import type { ScanContainment } from '../process-tree/scan.ts'

/**
 * One output stream of an agent, as a file. The file is not the agent's stdout: a tool's `echo x > /dev/stdout` would
 * truncate it. Between them is a pipe and a tiny `cat >> log`, outside the agent's containment, that ends by itself when
 * the last writer is gone; the obligation is to archive what it wrote.
 */
export interface LogRef extends LogSpec {
  readonly mark: Mark
  readonly path: string
  readonly pipe: string
}

/** A log whose writer is gone. */
export interface CompleteLog {
  readonly scopeId: string
  /** `stdout` or `stderr`. */
  readonly stream: string
  readonly path: string
}

export interface LogDeps {
  readonly effects: Effects
  readonly directory: string
  readonly inheritedCookie: string | undefined
  readonly installation: string
  /** Resolves when every line of a complete log has become a message; nobody may be interested. */
  readonly readToEnd?: (log: CompleteLog) => Promise<void>
  readonly onBytes?: (what: 'archived' | 'freed', bytes: number) => void
  /** Finds the collector of a supervisor that is gone, by its cookie. */
  readonly net: ScanContainment
}

const { O_RDWR, O_RDONLY, O_WRONLY, O_APPEND, O_NONBLOCK, O_CREAT, O_EXCL, O_NOFOLLOW } = constants

/** A collector for which nothing has come for so long waits for somebody who is not ours. */
const quietMs = 2_000

interface Collector {
  readonly exit: Promise<unknown>
  readonly handle: LogHandle
  isGone: boolean
  /** Its log was seen absent. */
  isProven: boolean
}

export class LogKind implements ResourceKind<LogSpec, LogRef> {
  readonly kind = 'log'
  readonly #deps: LogDeps
  readonly #collectors = new Map<string, Collector>()

  constructor(deps: LogDeps) {
    this.#deps = deps
  }

  name(intent: Intent<LogSpec>): LogRef {
    const mark = { installation: intent.spec.installation, incarnation: intent.incarnation, resourceId: intent.id }
    const path = join(intent.spec.directory, `${intent.incarnation}~${intent.id}.log`)
    return { ...intent.spec, mark, path, pipe: `${path}.pipe` }
  }

  describe(ref: LogRef): string {
    return ref.path
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  async create(ref: LogRef, _spec: LogSpec, _ctx: CreateCtx): Promise<Created> {
    const { effects } = this.#deps
    this.#forgetProven()
    const descriptors = new Descriptors(effects)
    try {
      // Not synced: a log that a power cut takes away had nothing in it.
      const log = descriptors.open(ref.path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
      await effects.makePipe(ref.pipe)
      return { handle: await this.#collect(ref, log, descriptors) }
    } catch (error) {
      descriptors.closeAll()
      throw error
    }
  }

  async #collect(ref: LogRef, log: number, descriptors: Descriptors): Promise<LogHandle> {
    const { effects } = this.#deps
    // Opened for both first, because an open for one side alone would wait for the other.
    const both = descriptors.open(ref.pipe, O_RDWR | O_NONBLOCK)
    const reader = descriptors.open(ref.pipe, O_RDONLY)
    const fd = descriptors.open(ref.pipe, O_WRONLY)
    descriptors.close(both)
    effects.unlink(ref.pipe)
    const env = { PATH: '/usr/bin:/bin', [cookieName]: chainCookie(this.#deps.inheritedCookie, cookie(ref.mark)) }
    const child = await effects.spawn({ program: 'cat', argv: ['cat'], env, stdio: [reader, log, 'ignore'], detached: true })
    for (const ours of [reader, log]) descriptors.close(ours)
    let isOpen = true
    const done = (): void => {
      if (isOpen) effects.closeFile(fd)
      isOpen = false
    }
    const handle = { fd, done, path: ref.path, archive: ref.archive }
    const collector: Collector = { exit: child.exit, handle, isGone: false, isProven: false }
    child.exit.then(() => {
      collector.isGone = true
    })
    this.#collectors.set(ref.mark.resourceId, collector)
    return collector.handle
  }

  /** Not before the next creation, in case that it is looked at once more: the kernel's proof is in it. */
  #forgetProven(): void {
    for (const [resourceId, { isProven }] of this.#collectors) if (isProven) this.#collectors.delete(resourceId)
  }

  async observe(ref: LogRef, ctx: Ctx): Promise<Presence> {
    for (const path of [ref.path, ref.pipe]) if (existsSync(path)) return present(path)
    if (!(await this.#isCollectorGone(ref, ctx))) return present('its collector')
    const collector = this.#collectors.get(ref.mark.resourceId)
    if (collector) collector.isProven = true
    return absent({ method: 'no such path, collector ended', strength: this.#strength(ref), at: ctx.clock.wall() })
  }

  async #isCollectorGone(ref: LogRef, ctx: Ctx): Promise<boolean> {
    const collector = this.#collectors.get(ref.mark.resourceId)
    return collector ? collector.isGone : (await this.#deps.net.observe(this.#tree(ref), ctx)).is === 'absent'
  }

  /** The kernel tells a parent of its child's end; another supervisor's collector can only be looked for. */
  #strength(ref: LogRef): Proof['strength'] {
    return this.#collectors.has(ref.mark.resourceId) ? 'kernel' : 'scan'
  }

  obligations(ref: LogRef, policy: Policy): readonly string[] {
    return policy.keepsLogs && existsSync(ref.path) ? ['archive'] : []
  }

  async meet(_obligation: string, ref: LogRef, ctx: Ctx): Promise<void> {
    await this.#drain(ref, ctx)
    const { effects, readToEnd } = this.#deps
    // Before it moves: a supervisor that dies between the two finds the rest of the lines where it left them.
    await readToEnd?.({ scopeId: scopeOfResource(ref.mark.resourceId), stream: basename(ref.archive, '.log'), path: ref.path })
    // It took too long, or nobody wants it any more: what is done to the log now is somebody else's to do.
    if (ctx.signal.aborted) return
    const folder = dirname(ref.archive)
    ignore('EEXIST', () => effects.makeDirectory(folder, 0o700))
    const bytes = sizeOf(ref.path)
    effects.sync(ref.path)
    effects.rename(ref.path, ref.archive)
    this.#deps.onBytes?.('archived', bytes)
    effects.sync(folder)
  }

  /**
   * Everything that was written is in the file once the collector has seen the end of the stream. A stranger may hold it
   * open for ever: then the collector is ended, but only when it has found the pipe empty, and nothing came, for a while.
   */
  async #drain(ref: LogRef, ctx: Ctx): Promise<void> {
    const collector = this.#collectors.get(ref.mark.resourceId)
    collector?.handle.done()
    const { net } = this.#deps
    const tree = this.#tree(ref)
    const ended = collector ? collector.exit : net.gone(tree, ctx)
    for (let bytes = sizeOf(ref.path), isQuiet = false; !isQuiet; ) {
      const late = new Promise<'late'>((resolve) => ctx.clock.after(quietMs, ctx.signal, () => resolve('late')))
      if ((await Promise.race([ended, late])) !== 'late') return
      // An agent may have stopped it, and a stopped one collects nothing.
      await net.signal(tree, ['SIGCONT'])
      const before = bytes
      bytes = sizeOf(ref.path)
      isQuiet = bytes === before && (await net.isAsleep(tree))
    }
    await net.kill(tree)
  }

  async release(ref: LogRef, _step: LadderStep, ctx: Ctx): Promise<StepEffect> {
    const { effects } = this.#deps
    this.#collectors.get(ref.mark.resourceId)?.handle.done()
    const bytes = sizeOf(ref.path)
    for (const path of [ref.pipe, ref.path]) ignore('ENOENT', () => effects.unlink(path))
    if (bytes > 0) this.#deps.onBytes?.('freed', bytes)
    if (!(await this.#isCollectorGone(ref, ctx))) await this.#deps.net.kill(this.#tree(ref))
    return {}
  }

  async gone(ref: LogRef, ctx: Ctx): Promise<Proof> {
    const collector = this.#collectors.get(ref.mark.resourceId)
    if (collector) await collector.exit
    else await this.#deps.net.gone(this.#tree(ref), ctx)
    return { method: 'collector ended', strength: this.#strength(ref), at: ctx.clock.wall() }
  }

  async *list(owner: Owner): AsyncIterable<Found> {
    for (const file of existsSync(this.#deps.directory) ? readdirSync(this.#deps.directory) : []) {
      const [incarnation = '', rest = ''] = file.split('~')
      const resourceId = rest.replace(/\.log(\.pipe)?$/, '')
      if (!isSafeId(resourceId) || (owner.incarnation !== undefined && owner.incarnation !== incarnation)) continue
      if (owner.scopeIds && !owner.scopeIds.has(scopeOfResource(resourceId))) continue
      const archive = join(dirname(this.#deps.directory), 'archive', `${resourceId}.log`)
      yield {
        resourceId,
        incarnation,
        name: join(this.#deps.directory, file),
        spec: { installation: this.#deps.installation, directory: this.#deps.directory, archive },
      }
    }
  }

  /** The collector as the net knows it: by its cookie alone. */
  #tree(ref: LogRef): Tree {
    const spec = { containment: 'scan', installation: ref.installation, program: 'cat', place: '' } as const
    return { mark: ref.mark, spec, main: undefined, place: '/nonexistent', limitPlaces: [] }
  }
}

/** What a creation has open, so that one that fails leaves none. */
class Descriptors {
  readonly #effects: Effects
  readonly #open = new Set<number>()

  constructor(effects: Effects) {
    this.#effects = effects
  }

  open(path: string, flags: number, mode?: number): number {
    const fd = this.#effects.openFile(path, flags, mode)
    this.#open.add(fd)
    return fd
  }

  close(fd: number): void {
    this.#effects.closeFile(fd)
    this.#open.delete(fd)
  }

  closeAll(): void {
    for (const fd of this.#open) this.close(fd)
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

function ignore(code: string, effect: () => void): void {
  try {
    effect()
  } catch (error) {
    if (errno(error) !== code) throw error
  }
}
