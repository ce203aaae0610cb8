import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { EbbError, errno } from '../../core/model/errors.ts'
import {
  chainTag,
  environmentTag,
  environmentTagName,
  isSafeId,
  type Mark,
  parseEnvironmentTags,
  parseIncarnationId,
  scopeOfResource,
} from '../../core/model/identity.ts'
import { absent, type Presence, type Proof, present } from '../../core/model/resource.ts'
import type { Child, Effects } from '../../core/ports/effects.ts'
import type { Host } from '../../core/ports/host.ts'
import type { Ctx, Found, Owner } from '../../core/ports/kind.ts'
import type { Limits, TreeMember, TreePlace } from '../../core/ports/process.ts'
import type { ProcessEntry, ProcessTable } from '../processes/process-table.ts'
import type { Containment, Tree, TreeStart } from './containment.ts'
import { rlimitTagText } from './rlimit-tag.ts'
import { throughGates } from './trampoline.ts'

/**
 * The weakest containment, which asks nothing of the kernel but a list: processes are found by the cookie in their environment, by
 * the brand where they have cleared it, by descent from one that was found, and by a session or group that one of them made. Who
 * forks faster than anybody can look is missed, and on macOS who clears its environment, so the proof is marked `scan`.
 */
export interface ScanDeps {
  readonly effects: Effects
  readonly host: Host
  readonly processes: ProcessTable
  readonly inheritedTag: string | undefined
  /** Where the doors are; ours alone. */
  readonly directory: string
}

/** Between two scans of processes that are on their way out. */
const rescanMs = 5
const emptyPassesNeeded = 2

interface Told {
  readonly signals: readonly NodeJS.Signals[]
  readonly names: ReadonlySet<string>
  /** Who came while they were being told, as the first look afterwards found them. */
  late?: ReadonlySet<string>
}

export class ScanContainment implements Containment {
  readonly name = 'scan'
  readonly #deps: ScanDeps
  /** Every process seen in a tree so far, so that its children are still known when it is gone. */
  readonly #known = new Map<string, Map<number, ProcessEntry>>()
  /** Whom the last signal to a tree was meant for. */
  readonly #told = new Map<string, Told>()

  constructor(deps: ScanDeps) {
    this.#deps = deps
  }

  place(limits?: Limits): TreePlace {
    if (limits && (limits.memoryBytes !== undefined || limits.pids !== undefined)) {
      throw new EbbError(
        'limits_unavailable',
        'Limits on memory and processes need the cgroup containment; leave them out, or see "ebb doctor".',
      )
    }
    return this.#placeOf(this.#deps.host.incarnationId)
  }

  #placeOf(incarnation: string): TreePlace {
    return { place: join(this.#deps.directory, `${incarnation}~`) }
  }

  async start(tree: Tree, launch: TreeStart): Promise<Child> {
    const { effects } = this.#deps
    effects.createFile(tree.place, '', 0o600)
    const env = { ...launch.env, [environmentTagName]: chainTag(this.#deps.inheritedTag, environmentTag(tree.mark)) }
    const command = throughGates('file', [tree.place], { ...launch, mark: tree.mark }, env)
    return await (launch.spawn ?? effects.spawn)({
      ...command,
      env,
      cwd: launch.cwd,
      stdio: launch.stdio,
      detached: launch.detached,
    })
  }

  async observe(tree: Tree, ctx: Ctx): Promise<Presence> {
    if (existsSync(tree.place)) return present('its door')
    for (let pass = 0; pass < emptyPassesNeeded; pass++) {
      const found = this.#members(tree, await this.#deps.processes.snapshot())
      if (found.length > 0) return present(`${found.length} processes`)
    }
    this.#known.delete(tree.mark.resourceId)
    return absent({ method: 'two scans found none', strength: 'scan', at: ctx.clock.wall() })
  }

  /** The cookie came with the command: there is nothing to enter. */
  holds(): boolean {
    return true
  }

  /** The second net, under a stronger containment: does anything that carries the tree's mark live? */
  async hasStrays(tree: Tree): Promise<boolean> {
    return (await this.#deps.processes.marked()).some((one) => isMarked(one, tree))
  }

  /** Does every process of the tree wait for something? Who runs, is stopped, or waits for the disk is in the middle of its work. */
  async isAsleep(tree: Tree): Promise<boolean> {
    return this.#members(tree, await this.#deps.processes.snapshot()).every(({ state }) => /^[SI]/.test(state))
  }

  async signal(tree: Tree, signals: readonly NodeJS.Signals[]): Promise<void> {
    const entries = this.#members(tree, await this.#deps.processes.snapshot())
    this.#told.set(tree.mark.resourceId, { signals, names: new Set(entries.map(nameOf)) })
    for (const entry of entries) for (const signal of signals) signalEntry(this.#deps, entry, signal)
  }

  /**
   * Who was forked while the others were being told has heard nothing. As long as its parent lives, that is its parent's
   * business; when the parent has died of the signal, it would be waited for until the grace is over.
   */
  #tellLate({ mark: { resourceId } }: Tree, found: readonly ProcessEntry[]): void {
    const told = this.#told.get(resourceId)
    if (!told) return
    told.late ??= new Set(found.map(nameOf).filter((name) => !told.names.has(name)))
    const living = new Set(found.map(({ pid }) => pid))
    const waiting = found.filter((entry) => told.late?.has(nameOf(entry)))
    const orphans = waiting.filter(({ ppid }) => !living.has(ppid))
    for (const entry of orphans) for (const signal of told.signals) signalEntry(this.#deps, entry, signal)
    told.late = new Set(waiting.filter((entry) => !orphans.includes(entry)).map(nameOf))
    if (told.late.size === 0) this.#told.delete(resourceId)
  }

  /** The door first, so that nobody enters; then everybody is stopped, so that nobody forks; then they die. */
  async kill(tree: Tree): Promise<void> {
    this.#told.delete(tree.mark.resourceId)
    this.#removeGate(tree)
    const stopped = new Map<string, ProcessEntry>()
    for (let news = true; news; ) {
      news = false
      for (const entry of this.#members(tree, await this.#deps.processes.snapshot())) {
        if (stopped.has(nameOf(entry))) continue
        news = true
        stopped.set(nameOf(entry), entry)
        signalEntry(this.#deps, entry, 'SIGSTOP')
      }
    }
    for (const entry of stopped.values()) signalEntry(this.#deps, entry, 'SIGKILL')
  }

  async gone(tree: Tree, ctx: Ctx): Promise<Proof> {
    for (let empty = 0; empty < emptyPassesNeeded; ) {
      if (ctx.signal.aborted) throw new Error('the wait was given up')
      const found = this.#members(tree, await this.#deps.processes.snapshot())
      empty = found.length === 0 ? empty + 1 : 0
      this.#tellLate(tree, found)
      if (found.length > 0) await new Promise<void>((resolve) => ctx.clock.after(rescanMs, ctx.signal, resolve))
    }
    this.#removeGate(tree)
    return { method: 'two scans found none', strength: 'scan', at: ctx.clock.wall() }
  }

  #removeGate(tree: Tree): void {
    try {
      this.#deps.effects.unlink(tree.place)
    } catch (error) {
      if (errno(error) !== 'ENOENT') throw error
    }
  }

  async *list(owner: Owner): AsyncIterable<Found> {
    for (const name of existsSync(this.#deps.directory) ? readdirSync(this.#deps.directory) : []) {
      const [incarnation = '', resourceId = ''] = name.split('~')
      if (owner.incarnation !== undefined && incarnation !== owner.incarnation) continue
      if (isSafeId(resourceId)) yield this.#found({ installation: this.#deps.host.installation, incarnation, resourceId })
    }
  }

  #found(mark: Mark): Found {
    const { place } = this.#placeOf(mark.incarnation)
    return {
      resourceId: mark.resourceId,
      incarnation: mark.incarnation,
      name: place + mark.resourceId,
      spec: { containment: this.name, installation: mark.installation, program: 'unknown', place },
    }
  }

  members(): Iterable<TreeMember> {
    return []
  }

  async tidy(): Promise<void> {}

  /** Processes that carry the mark but no door: what escaped a stronger containment, or outlived its records. */
  async *strays(owner: Owner): AsyncIterable<Found> {
    const seen = new Set<string>()
    for (const { environmentTags } of await this.#deps.processes.marked()) {
      for (const mark of parseEnvironmentTags(environmentTags)) {
        if (mark.installation !== owner.installation || seen.has(mark.resourceId) || !isSafeId(mark.resourceId)) continue
        if (owner.incarnation !== undefined && mark.incarnation !== owner.incarnation) continue
        seen.add(mark.resourceId)
        yield this.#found(mark)
      }
    }
  }

  killAllNow(kept: ReadonlySet<string>): void {
    const { host, processes } = this.#deps
    for (const { pid, environmentTags } of processes.markedNow()) {
      const isOurs = parseEnvironmentTags(environmentTags).some(
        ({ incarnation, resourceId }) => incarnation === host.incarnationId && !kept.has(scopeOfResource(resourceId)),
      )
      const entry = isOurs && pid !== process.pid ? processes.find(pid) : undefined
      if (entry) signalEntry(this.#deps, entry, 'SIGKILL')
    }
  }

  #members(tree: Tree, entries: readonly ProcessEntry[]): readonly ProcessEntry[] {
    const known = this.#known.get(tree.mark.resourceId) ?? new Map<number, ProcessEntry>()
    this.#known.set(tree.mark.resourceId, known)
    return findMembers(tree, entries, known, process.pid)
  }
}

/**
 * Who belongs to the tree: the cookie, the recorded main process, descent, and sessions or groups that members lead.
 * Grows `known`. Never a process that is older than the tree's supervisor, and never through a pid that was given to
 * somebody else meanwhile (G10).
 */
export function findMembers(
  tree: Tree,
  entries: readonly ProcessEntry[],
  known: Map<number, ProcessEntry>,
  self: number,
): readonly ProcessEntry[] {
  const since = Number(parseIncarnationId(tree.mark.incarnation)?.startTime ?? 0)
  const young = entries.filter((entry) => entry.pid > 1 && entry.pid !== self && Number(entry.startTime) >= since)
  const living = new Map(young.map((entry) => [entry.pid, entry]))
  const inside = new Set<number>()
  const take = (entry: ProcessEntry): void => {
    inside.add(entry.pid)
    known.set(entry.pid, entry)
  }
  for (const entry of young) if (isKnown(entry, tree, known) || isMarked(entry, tree)) take(entry)
  for (let before = -1; before < inside.size; ) {
    before = inside.size
    for (const entry of young) if (!inside.has(entry.pid) && isKin(entry, inside, known, living)) take(entry)
  }
  return young.filter((entry) => inside.has(entry.pid))
}

/** A pid alone is reused. */
function nameOf({ pid, startTime }: ProcessEntry): string {
  return `${pid} ${startTime}`
}

function isKnown(entry: ProcessEntry, { main }: Tree, known: ReadonlyMap<number, ProcessEntry>): boolean {
  return (entry.pid === main?.pid && entry.startTime === main.startTime) || known.get(entry.pid)?.startTime === entry.startTime
}

/** A process can clear its environment, or write another's cookie into it; the brand is read only where the cookie is not the tree's. */
function isMarked(one: Pick<ProcessEntry, 'environmentTags' | 'rlimitTag'>, { mark }: Tree): boolean {
  const isOurs = ({ installation, resourceId }: Mark): boolean => resourceId === mark.resourceId && installation === mark.installation
  return (
    parseEnvironmentTags(one.environmentTags ?? '').some(isOurs) || (one.rlimitTag !== undefined && one.rlimitTag === rlimitTagText(mark))
  )
}

/** A child, or one of a session or group that a member leads: those live on, under the same number, when the leader is gone. */
function isKin(
  entry: ProcessEntry,
  inside: ReadonlySet<number>,
  known: ReadonlyMap<number, ProcessEntry>,
  living: ReadonlyMap<number, ProcessEntry>,
): boolean {
  const isLedBy = (leader: number, by: 'sid' | 'pgid'): boolean => {
    const one = known.get(leader)
    if (one?.[by] !== leader || Number(one.startTime) > Number(entry.startTime)) return false
    const now = living.get(leader)
    return now === undefined || now.startTime === one.startTime
  }
  const parent = inside.has(entry.ppid) ? living.get(entry.ppid) : undefined
  // A scan takes its time: a parent that is younger than its child got the pid after the child was read.
  const isChild = parent !== undefined && Number(parent.startTime) <= Number(entry.startTime)
  return isChild || isLedBy(entry.sid, 'sid') || isLedBy(entry.pgid, 'pgid')
}

/** Looked at again just before: between the scan and the signal a pid can be given to somebody else (G10). */
export function signalEntry(deps: Pick<ScanDeps, 'effects' | 'processes'>, entry: ProcessEntry, signal: NodeJS.Signals): void {
  if (deps.processes.find(entry.pid)?.startTime !== entry.startTime) return
  try {
    deps.effects.signal(entry.pid, signal)
  } catch (error) {
    if (errno(error) !== 'ESRCH') throw error
  }
}
