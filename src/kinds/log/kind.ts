import { constants, existsSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Policy } from '../../core/model/close-request.ts'
import { EbbError, errno } from '../../core/model/errors.ts'
import { chainTag, environmentTag, isSafeId, scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Presence, type Proof, present } from '../../core/model/resource.ts'
import { type LogHandle, type LogSpec, logKind, logLabel } from '../../core/ports/agent-log.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Label } from '../../core/ports/handles.ts'
import type { CreateCtx, Created, Ctx, Found, IntentOf, LabelledKind, Owner, StepEffect } from '../../core/ports/kind.ts'
import type { ScanContainment } from '../../host/containment/scan.ts'
import { findStat, makeParents, refused } from '../../host/path.ts'
import type { ProcessTable } from '../../host/processes/process-table.ts'
import { Collectors } from './collectors.ts'
import { Descriptors } from './descriptors.ts'
import { ignore, sizeOf } from './files.ts'
import type { Holders } from './holders.ts'
import { Mover } from './mover.ts'
import { confinedOf, findAny, findCopy, findLog, type LogRef, refOf, requireOwn, streamOf } from './place.ts'

export type { LogRef } from './place.ts'

/** A log whose last writer has ended. */
export interface CompleteLog {
  readonly scopeId: string
  /** The stream of the log: `stdout` or `stderr`. */
  readonly stream: string
  readonly path: string
}

export interface LogDeps {
  readonly effects: Effects
  /** The log folder in the home: live logs outside workspaces, and the pipes of all logs. */
  readonly directory: string
  readonly inheritedTag: string | undefined
  readonly installation: string
  /** Resolves when every line of a complete log has become a message. */
  readonly readToEnd?: (log: CompleteLog) => Promise<void>
  readonly onBytes?: (what: 'archived' | 'freed', bytes: number) => void
  /** Finds a collector that is no child of this supervisor, by its environment tag. */
  readonly fallbackScan: ScanContainment
  readonly processes: ProcessTable
  /** Finds the processes that have a file open; reads /proc by default. */
  readonly holders?: Pick<Holders, 'find'>
}

const { O_WRONLY, O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW } = constants

/** The streams whose lines become messages. */
const readStreams: ReadonlySet<string> = new Set(['stdout', 'stderr'])

/**
 * The log of one stream of an agent: a file in the home or in a workspace. The agent's stdout is a pipe and not the file itself, because
 * `echo x > /dev/stdout` in a tool would truncate a file. A small process, the collector, copies from the pipe to the file. It runs outside
 * the agent's containment or in its terminal, and ends by itself when the last writer is gone. The obligation of a log is to archive it.
 * A log that the supervisor itself writes has no collector.
 */
export class LogKind implements LabelledKind<typeof logKind, LogRef> {
  readonly kind = logKind
  readonly label = { title: 'Log' }
  readonly attends = true
  readonly #deps: LogDeps
  readonly #collectors: Collectors
  readonly #mover: Mover
  /**
   * The seals of logs that this supervisor writes. A sealed log takes no more lines, because a line written after the archiving would be
   * left behind.
   */
  readonly #seals = new Map<string, { isSealed: boolean }>()
  /** Ids of logs whose path was taken when they were created. The file there does not belong to Ebb and is left alone. */
  readonly #taken = new Set<string>()

  constructor(deps: LogDeps) {
    this.#deps = deps
    this.#collectors = new Collectors(deps)
    this.#mover = new Mover(deps)
  }

  name(intent: IntentOf<typeof logKind>): LogRef {
    return refOf(this.#deps.directory, intent)
  }

  describe(ref: LogRef): string {
    return ref.path
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  async create(ref: LogRef, _spec: LogSpec, _ctx: CreateCtx): Promise<Created<typeof logKind>> {
    this.#collectors.forgetProven()
    this.#makePlace(ref)
    if (ref.writer === 'supervisor') return { handle: this.#written(ref) }
    if (ref.writer === 'follower') return { handle: this.#followed(ref) }
    const { effects } = this.#deps
    const descriptors = new Descriptors(effects)
    try {
      // The new log is not synced: a log that a power cut removes had nothing in it yet.
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

  /** Makes the folders of a log in a workspace. Other programs make files there too, so the path may be taken. */
  #makePlace(ref: LogRef): void {
    const confined = confinedOf(ref, 'path')
    if (!confined) return
    makeParents(this.#deps.effects, confined)
    if (!findStat(ref.path)) return
    this.#taken.add(ref.mark.resourceId)
    throw refused(ref.path, 'a file or folder that Ebb did not make exists there already')
  }

  async resume(ref: LogRef, _ctx: Ctx): Promise<LogHandle> {
    if (ref.writer === 'supervisor') return this.#written(ref)
    return ref.writer === 'terminal' ? this.#terminal(ref) : { path: ref.path, archive: ref.archive, done: () => {} }
  }

  planLabel(ref: LogRef): Label<LogHandle> {
    return logLabel(streamOf(ref))
  }

  /** Makes the file of the log before its first line, so that readers wait for the line and not for the file. */
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
      collectedBy: (pid) => this.#collectors.setPid(ref, pid),
      done: () => ignore('ENOENT', () => effects.unlink(ref.pipe)),
    }
  }

  #written(ref: LogRef): LogHandle {
    const { effects } = this.#deps
    const seal = { isSealed: false }
    this.#seals.set(ref.mark.resourceId, seal)
    const append = (line: string, maxBytes = Number.POSITIVE_INFINITY): void => {
      if (seal.isSealed) throw new EbbError('scope_closed', `The log ${ref.path} is closed, because its agent has ended.`)
      const confined = confinedOf(ref, 'path')
      if (confined) makeParents(effects, confined)
      if (sizeOf(ref.path) + Buffer.byteLength(line) + 1 > maxBytes) throw tooLarge(ref, maxBytes)
      effects.append(ref.path, `${line}\n`, 0o600)
    }
    return { path: ref.path, archive: ref.archive, append, done: () => {} }
  }

  #seal({ mark: { resourceId } }: LogRef): void {
    const seal = this.#seals.get(resourceId)
    if (seal) seal.isSealed = true
    this.#seals.delete(resourceId)
  }

  async observe(ref: LogRef, ctx: Ctx): Promise<Presence> {
    if (this.#taken.has(ref.mark.resourceId)) return this.#neverMade(ref, ctx)
    const left = findAny(ref)
    if (left !== undefined) return present(left)
    if (!hasCollector(ref)) {
      // A log that was observed as absent must not be created again by a late line.
      this.#seal(ref)
      return absent({ method: 'no such path', strength: 'kernel', at: ctx.clock.wall() })
    }
    if (!(await this.#collectors.isGone(ref, ctx))) return present('its collector')
    const { strength } = this.#collectors.settle(ref)
    return absent({ method: 'no such path, collector ended', strength, at: ctx.clock.wall() })
  }

  #neverMade(ref: LogRef, ctx: Ctx): Presence {
    if (findStat(ref.pipe)) return present(ref.pipe)
    return absent({ method: 'never made, because its place was taken', strength: 'kernel', at: ctx.clock.wall() })
  }

  obligations(ref: LogRef, policy: Policy): readonly string[] {
    const isOwed = policy.keepsLogs && !this.#taken.has(ref.mark.resourceId) && findLog(ref) !== undefined
    return isOwed ? ['archive'] : []
  }

  async meet(_obligation: string, ref: LogRef, ctx: Ctx): Promise<void> {
    this.#seal(ref)
    if (hasCollector(ref)) await this.#collectors.drain(ref, ctx)
    const stream = streamOf(ref)
    // A foreign file at the path must not become messages of the agent.
    requireOwn(ref)
    // The log is read before it is archived: after a crash in between, the next supervisor finds the rest of the lines at the same path.
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

  /** Removes the log before its copy. A copy that starts meanwhile then finds no log and leaves no file. */
  #remove(ref: LogRef): void {
    const { effects, onBytes } = this.#deps
    if (findLog(ref) !== undefined) {
      requireOwn(ref)
      const bytes = sizeOf(ref.path)
      ignore('ENOENT', () => effects.unlink(ref.path))
      if (bytes > 0) onBytes?.('freed', bytes)
    }
    if (findCopy(ref) !== undefined) ignore('ENOENT', () => effects.unlink(ref.staging))
    this.#mover.forget(ref)
  }

  async gone(ref: LogRef, ctx: Ctx): Promise<Proof> {
    if (!hasCollector(ref)) return { method: 'no collector', strength: 'kernel', at: ctx.clock.wall() }
    const strength = await this.#collectors.gone(ref, ctx)
    return { method: 'collector ended', strength, at: ctx.clock.wall() }
  }

  /** Lists logs in the home only: workspaces belong to users and are not searched. */
  async *list(owner: Owner): AsyncIterable<Found<LogSpec>> {
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

function tooLarge({ path }: LogRef, maxBytes: number): EbbError {
  return new EbbError(
    'too_large',
    `The file ${path} may have at most ${maxBytes} bytes (--limit-log), and this line would exceed that; report no more.`,
  )
}
