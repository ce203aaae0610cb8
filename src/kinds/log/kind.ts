import { constants, existsSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Policy } from '../../core/model/close-request.ts'
import { EbbError, errno } from '../../core/model/errors.ts'
import { chainTag, environmentTag, isSafeId, scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Intent, type Presence, type Proof, present } from '../../core/model/resource.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { CreateCtx, Created, Ctx, Found, Owner, ResourceKind, StepEffect } from '../../core/ports/kind.ts'
import type { LogHandle, LogSpec } from '../../core/ports/process.ts'
import type { ScanContainment } from '../../host/containment/scan.ts'
import { findStat, makeParents, refused } from '../../host/path.ts'
import type { ProcessTable } from '../../host/processes/process-table.ts'
import { Collectors } from './collectors.ts'
import { Descriptors } from './descriptors.ts'
import { ignore, sizeOf } from './files.ts'
import type { Holders } from './holders.ts'
import { Mover } from './mover.ts'
import { anythingThere, copyThere, type LogRef, logThere, refOf, requireOwn, streamOf, wayTo } from './place.ts'

export type { LogRef } from './place.ts'

/** A log whose writer is gone. */
export interface CompleteLog {
  readonly scopeId: string
  /** `stdout` or `stderr`. */
  readonly stream: string
  readonly path: string
}

export interface LogDeps {
  readonly effects: Effects
  /** Of the home: live logs that are in no workspace, and the pipes of all of them. */
  readonly directory: string
  readonly inheritedTag: string | undefined
  readonly installation: string
  /** Resolves when every line of a complete log has become a message; nobody may be interested. */
  readonly readToEnd?: (log: CompleteLog) => Promise<void>
  readonly onBytes?: (what: 'archived' | 'freed', bytes: number) => void
  /** Finds the collector of a supervisor that is gone, or in a terminal, by its cookie. */
  readonly fallbackScan: ScanContainment
  readonly processes: ProcessTable
  /** Who has a file open; by default, by a look at /proc. */
  readonly holders?: Pick<Holders, 'find'>
}

const { O_WRONLY, O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW } = constants

/** Those that become messages. */
const readStreams: ReadonlySet<string> = new Set(['stdout', 'stderr'])

/**
 * One stream of an agent, as a file, in the home or in a workspace. The file is not the agent's stdout: a tool's
 * `echo x > /dev/stdout` would truncate it. Between them is a pipe and a tiny collector, outside the agent's containment
 * or in its terminal, that ends by itself when the last writer is gone; the obligation is to archive what it wrote. What
 * this supervisor writes itself has no collector.
 */
export class LogKind implements ResourceKind<LogSpec, LogRef> {
  readonly kind = 'log'
  readonly #deps: LogDeps
  readonly #collectors: Collectors
  readonly #mover: Mover
  /** Logs of which nothing may be written any more, or would be left behind. */
  readonly #sealed = new Map<string, { isSealed: boolean }>()
  /** Something else was at their place before we were: it is not ours to touch. */
  readonly #taken = new Set<string>()

  constructor(deps: LogDeps) {
    this.#deps = deps
    this.#collectors = new Collectors(deps)
    this.#mover = new Mover(deps)
  }

  name(intent: Intent<LogSpec>): LogRef {
    return refOf(this.#deps.directory, intent)
  }

  describe(ref: LogRef): string {
    return ref.path
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  async create(ref: LogRef, _spec: LogSpec, _ctx: CreateCtx): Promise<Created> {
    this.#collectors.forgetProven()
    this.#makePlace(ref)
    if (ref.writer === 'supervisor') return { handle: this.#written(ref) }
    if (ref.writer === 'follower') return { handle: this.#followed(ref) }
    const { effects } = this.#deps
    const descriptors = new Descriptors(effects)
    try {
      // Not synced: a log that a power cut takes away had nothing in it.
      const log = descriptors.open(ref.path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
      await effects.makePipe(ref.pipe)
      if (ref.writer !== 'terminal') return { handle: await this.#collectors.start(ref, log, descriptors) }
      descriptors.close(log)
      return { handle: this.#terminal(ref) }
    } catch (error) {
      descriptors.closeAll()
      if (errno(error) === 'EEXIST') this.#taken.add(ref.mark.resourceId)
      throw error
    }
  }

  /** Others name their files in a workspace too. */
  #makePlace(ref: LogRef): void {
    const way = wayTo(ref, 'path')
    if (!way) return
    makeParents(this.#deps.effects, way)
    if (!findStat(ref.path)) return
    this.#taken.add(ref.mark.resourceId)
    throw refused(ref.path, 'something is there already, and it is not ours')
  }

  async resume(ref: LogRef, _ctx: Ctx): Promise<LogHandle> {
    if (ref.writer === 'supervisor') return this.#written(ref)
    return ref.writer === 'terminal' ? this.#terminal(ref) : { path: ref.path, archive: ref.archive, done: () => {} }
  }

  /** There from the start: whoever reads it waits for its first line, not for the file. */
  #followed(ref: LogRef): LogHandle {
    try {
      this.#deps.effects.createFile(ref.path, '', 0o600)
    } catch (error) {
      if (errno(error) === 'EEXIST') this.#taken.add(ref.mark.resourceId)
      throw error
    }
    return { path: ref.path, archive: ref.archive, done: () => {} }
  }

  #terminal(ref: LogRef): LogHandle {
    const { effects, inheritedTag } = this.#deps
    const pipe = { path: ref.pipe, environmentTag: chainTag(inheritedTag, environmentTag(ref.mark)) }
    return {
      path: ref.path,
      archive: ref.archive,
      pipe,
      collectedBy: (pid) => this.#collectors.know(ref, pid),
      done: () => ignore('ENOENT', () => effects.unlink(ref.pipe)),
    }
  }

  #written(ref: LogRef): LogHandle {
    const { effects } = this.#deps
    const seal = { isSealed: false }
    this.#sealed.set(ref.mark.resourceId, seal)
    const append = (line: string, mostBytes = Number.POSITIVE_INFINITY): void => {
      if (seal.isSealed) throw new EbbError('scope_closed', `The log ${ref.path} is closed; its agent is over.`)
      const way = wayTo(ref, 'path')
      if (way) makeParents(effects, way)
      if (sizeOf(ref.path) + Buffer.byteLength(line) + 1 > mostBytes) throw tooLarge(ref, mostBytes)
      effects.append(ref.path, `${line}\n`, 0o600)
    }
    return { path: ref.path, archive: ref.archive, append, done: () => {} }
  }

  #seal({ mark: { resourceId } }: LogRef): void {
    const seal = this.#sealed.get(resourceId)
    if (seal) seal.isSealed = true
    this.#sealed.delete(resourceId)
  }

  async observe(ref: LogRef, ctx: Ctx): Promise<Presence> {
    if (this.#taken.has(ref.mark.resourceId)) return this.#neverMade(ref, ctx)
    const there = anythingThere(ref)
    if (there !== undefined) return present(there)
    if (!hasCollector(ref)) {
      // What is seen absent must not come back with a late report.
      this.#seal(ref)
      return absent({ method: 'no such path', strength: 'kernel', at: ctx.clock.wall() })
    }
    if (!(await this.#collectors.isGone(ref, ctx))) return present('its collector')
    const { strength } = this.#collectors.proven(ref)
    return absent({ method: 'no such path, collector ended', strength, at: ctx.clock.wall() })
  }

  #neverMade(ref: LogRef, ctx: Ctx): Presence {
    if (findStat(ref.pipe)) return present(ref.pipe)
    return absent({ method: 'never made, because its place was taken', strength: 'kernel', at: ctx.clock.wall() })
  }

  obligations(ref: LogRef, policy: Policy): readonly string[] {
    const isOwed = policy.keepsLogs && !this.#taken.has(ref.mark.resourceId) && logThere(ref) !== undefined
    return isOwed ? ['archive'] : []
  }

  async meet(_obligation: string, ref: LogRef, ctx: Ctx): Promise<void> {
    this.#seal(ref)
    if (hasCollector(ref)) await this.#collectors.drain(ref, ctx)
    const stream = streamOf(ref)
    // What somebody else has put at the place does not become messages of the agent.
    requireOwn(ref)
    // Before it moves: a supervisor that dies between the two finds the rest of the lines where it left them.
    if (readStreams.has(stream)) await this.#deps.readToEnd?.({ scopeId: scopeOfResource(ref.mark.resourceId), stream, path: ref.path })
    if (ctx.signal.aborted) return
    await this.#mover.archive(ref, ctx)
  }

  async release(ref: LogRef, _step: LadderStep, ctx: Ctx): Promise<StepEffect> {
    const { effects } = this.#deps
    this.#seal(ref)
    this.#collectors.done(ref)
    ignore('ENOENT', () => effects.unlink(ref.pipe))
    if (!this.#taken.has(ref.mark.resourceId)) this.#remove(ref)
    if (hasCollector(ref)) await this.#collectors.end(ref, ctx)
    return {}
  }

  /** The log first: a copy of it that is being made then finds nothing to copy, and leaves nothing. */
  #remove(ref: LogRef): void {
    const { effects, onBytes } = this.#deps
    if (logThere(ref) !== undefined) {
      requireOwn(ref)
      const bytes = sizeOf(ref.path)
      ignore('ENOENT', () => effects.unlink(ref.path))
      if (bytes > 0) onBytes?.('freed', bytes)
    }
    if (copyThere(ref) !== undefined) ignore('ENOENT', () => effects.unlink(ref.staging))
    this.#mover.forget(ref)
  }

  async gone(ref: LogRef, ctx: Ctx): Promise<Proof> {
    if (!hasCollector(ref)) return { method: 'no collector', strength: 'kernel', at: ctx.clock.wall() }
    const strength = await this.#collectors.gone(ref, ctx)
    return { method: 'collector ended', strength, at: ctx.clock.wall() }
  }

  /** In the home alone: a workspace is not ours to search. */
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
}

function hasCollector({ writer }: LogRef): boolean {
  return writer !== 'supervisor' && writer !== 'follower'
}

function tooLarge({ path }: LogRef, mostBytes: number): EbbError {
  return new EbbError(
    'too_large',
    `The file ${path} may have ${mostBytes} bytes (--limit-log), and this line is too much for it; report no more.`,
  )
}
