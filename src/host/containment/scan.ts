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
import type { Limits, TreeMember, TreePlace, TreeSpec } from '../../core/ports/process.ts'
import type { ProcessEntry, ProcessTable } from '../processes/process-table.ts'
import type { Containment, Tree, TreeStart } from './containment.ts'
import { rlimitTagText } from './rlimit-tag.ts'
import { throughGates } from './trampoline.ts'

/**
 * The weakest containment, which needs only a list of processes. A process is found by its environment tag, by its rlimit tag where it
 * has cleared its environment, by descent from a process that was found, and by a session or group that such a process leads. A process
 * that forks faster than a scan is missed, and so is one that clears its environment on macOS. Therefore the proof has strength `scan`.
 */
export interface ScanDeps {
  readonly effects: Effects
  readonly host: Host
  readonly processes: ProcessTable
  readonly inheritedTag: string | undefined
  /** The folder of the gate files. Only this installation writes there. */
  readonly directory: string
}

/** The pause between two scans while processes exit. */
const rescanMs = 5
const emptyPassesNeeded = 2

/** The signals that were sent to a tree, and the processes that got them. */
interface SentSignals {
  readonly signals: readonly NodeJS.Signals[]
  readonly names: ReadonlySet<string>
  /** Members of the tree that were forked too late to get the signals. Set by the first scan afterwards. */
  late?: ReadonlySet<string>
}

export class ScanContainment implements Containment {
  readonly name = 'scan'
  readonly #deps: ScanDeps
  /** All processes observed in a tree so far, so that the session or group of one that is gone is still known. */
  readonly #known = new Map<string, Map<number, ProcessEntry>>()
  /** The last signals to each tree. */
  readonly #sent = new Map<string, SentSignals>()

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
    if (existsSync(tree.place)) return present('its gate')
    for (let pass = 0; pass < emptyPassesNeeded; pass++) {
      const found = this.#members(tree, await this.#deps.processes.snapshot())
      if (found.length > 0) return present(`${found.length} processes`)
    }
    this.#known.delete(tree.mark.resourceId)
    return absent({ method: 'two scans found none', strength: 'scan', at: ctx.clock.wall() })
  }

  /** The command carries the environment tag from its start, so it is always inside the tree. */
  holds(): boolean {
    return true
  }

  /** Whether a living process carries the tree's tags. Used besides a stronger containment, to find processes that have left it. */
  async hasStrays(tree: Tree): Promise<boolean> {
    return (await this.#deps.processes.marked()).some((entry) => isMarked(entry, tree))
  }

  /** Whether every process of the tree sleeps or idles. A process that runs, is stopped or waits for the disk has work to finish. */
  async isAsleep(tree: Tree): Promise<boolean> {
    return this.#members(tree, await this.#deps.processes.snapshot()).every(({ state }) => /^[SI]/.test(state))
  }

  async signal(tree: Tree, signals: readonly NodeJS.Signals[]): Promise<void> {
    const entries = this.#members(tree, await this.#deps.processes.snapshot())
    this.#sent.set(tree.mark.resourceId, { signals, names: new Set(entries.map(nameOf)) })
    for (const entry of entries) for (const signal of signals) signalEntry(this.#deps, entry, signal)
  }

  /**
   * Sends the signals to processes that were forked while the others got theirs. While the parent of such a process lives, ending it is
   * left to the parent. When the parent has died of the signal, the process would run until the end of the grace period.
   */
  #signalLate({ mark: { resourceId } }: Tree, found: readonly ProcessEntry[]): void {
    const sent = this.#sent.get(resourceId)
    if (!sent) return
    sent.late ??= new Set(found.map(nameOf).filter((name) => !sent.names.has(name)))
    const living = new Set(found.map(({ pid }) => pid))
    const waiting = found.filter((entry) => sent.late?.has(nameOf(entry)))
    const orphans = waiting.filter(({ ppid }) => !living.has(ppid))
    for (const entry of orphans) for (const signal of sent.signals) signalEntry(this.#deps, entry, signal)
    sent.late = new Set(waiting.filter((entry) => !orphans.includes(entry)).map(nameOf))
    if (sent.late.size === 0) this.#sent.delete(resourceId)
  }

  /** Removes the gate, so that no process enters. Then stops all members, so that none forks. Then kills them. */
  async kill(tree: Tree): Promise<void> {
    this.#sent.delete(tree.mark.resourceId)
    this.#removeGate(tree)
    const stopped = new Map<string, ProcessEntry>()
    for (let hasFoundNew = true; hasFoundNew; ) {
      hasFoundNew = false
      for (const entry of this.#members(tree, await this.#deps.processes.snapshot())) {
        if (stopped.has(nameOf(entry))) continue
        hasFoundNew = true
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
      this.#signalLate(tree, found)
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

  async *list(owner: Owner): AsyncIterable<Found<TreeSpec>> {
    for (const name of existsSync(this.#deps.directory) ? readdirSync(this.#deps.directory) : []) {
      const [incarnation = '', resourceId = ''] = name.split('~')
      if (owner.incarnation !== undefined && incarnation !== owner.incarnation) continue
      if (isSafeId(resourceId)) yield this.#found({ installation: this.#deps.host.installation, incarnation, resourceId })
    }
  }

  #found(mark: Mark): Found<TreeSpec> {
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

  /** Trees found by the tags of living processes alone: processes that escaped a stronger containment, or whose records are lost. */
  async *strays(owner: Owner): AsyncIterable<Found<TreeSpec>> {
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
 * The processes that belong to the tree, by tag, by the recorded main process, by descent, and by sessions or groups that members lead.
 * Adds them to `known`. A process that is older than the tree's supervisor never belongs to it. A reused pid does not make its new
 * process a member (G10).
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

/** Identifies a process by pid and start time, because a pid alone may have been reused. */
function nameOf({ pid, startTime }: ProcessEntry): string {
  return `${pid} ${startTime}`
}

function isKnown(entry: ProcessEntry, { main }: Tree, known: ReadonlyMap<number, ProcessEntry>): boolean {
  return (entry.pid === main?.pid && entry.startTime === main.startTime) || known.get(entry.pid)?.startTime === entry.startTime
}

/**
 * Whether a process carries the tags of a tree. The rlimit tag is read only when the environment tag is not the tree's: a process can clear
 * its environment, or set the tag of another tree.
 */
function isMarked(entry: Pick<ProcessEntry, 'environmentTags' | 'rlimitTag'>, { mark }: Tree): boolean {
  const isOurs = ({ installation, resourceId }: Mark): boolean => resourceId === mark.resourceId && installation === mark.installation
  return (
    parseEnvironmentTags(entry.environmentTags ?? '').some(isOurs) ||
    (entry.rlimitTag !== undefined && entry.rlimitTag === rlimitTagText(mark))
  )
}

/**
 * Whether a process is the child of a member, or in a session or group that a member leads or led. Session and group keep their number
 * when the leader is gone.
 */
function isKin(
  entry: ProcessEntry,
  inside: ReadonlySet<number>,
  known: ReadonlyMap<number, ProcessEntry>,
  living: ReadonlyMap<number, ProcessEntry>,
): boolean {
  const isLedBy = (leader: number, by: 'sid' | 'pgid'): boolean => {
    const recorded = known.get(leader)
    if (recorded?.[by] !== leader || Number(recorded.startTime) > Number(entry.startTime)) return false
    const now = living.get(leader)
    return now === undefined || now.startTime === recorded.startTime
  }
  const parent = inside.has(entry.ppid) ? living.get(entry.ppid) : undefined
  // A scan takes time. A parent that is younger than its child got its pid after the child was read, so it is another process.
  const isChild = parent !== undefined && Number(parent.startTime) <= Number(entry.startTime)
  return isChild || isLedBy(entry.sid, 'sid') || isLedBy(entry.pgid, 'pgid')
}

/** Sends a signal after checking the start time once more: between scan and signal the pid may have been reused (G10). */
export function signalEntry(deps: Pick<ScanDeps, 'effects' | 'processes'>, entry: ProcessEntry, signal: NodeJS.Signals): void {
  if (deps.processes.find(entry.pid)?.startTime !== entry.startTime) return
  try {
    deps.effects.signal(entry.pid, signal)
  } catch (error) {
    if (errno(error) !== 'ESRCH') throw error
  }
}
