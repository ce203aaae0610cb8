import { constants } from 'node:fs'
import { chainTag, environmentTag, environmentTagName } from '../../core/model/identity.ts'
import type { Proof } from '../../core/model/resource.ts'
import type { LogHandle } from '../../core/ports/agent-log.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Ctx } from '../../core/ports/kind.ts'
import type { Tree } from '../../host/containment/containment.ts'
import type { ScanContainment } from '../../host/containment/scan.ts'
import type { ProcessEntry, ProcessTable } from '../../host/processes/process-table.ts'
import type { Descriptors } from './descriptors.ts'
import { ignore, sizeOf } from './files.ts'
import type { LogRef } from './place.ts'

const { O_RDWR, O_RDONLY, O_WRONLY, O_NONBLOCK } = constants

/** When a collector has received nothing for this long, only a foreign process still holds the pipe open. */
const quietMs = 2_000

/** The pause between two checks of a collector that is exiting. */
const recheckMs = 2

interface Collector {
  readonly exit: Promise<unknown>
  readonly handle: LogHandle
  isGone: boolean
  /** True when the log of the collector was observed as absent. */
  isProven: boolean
}

export interface CollectorsDeps {
  readonly effects: Effects
  readonly inheritedTag: string | undefined
  readonly fallbackScan: ScanContainment
  readonly processes: ProcessTable
}

/**
 * The collectors: small processes between agents and their logs. They are our children, or children of others and found by their
 * environment tag.
 */
export class Collectors {
  readonly #deps: CollectorsDeps
  readonly #own = new Map<string, Collector>()
  /**
   * Collectors that are not our children and were observed as gone. A collector cannot come back: every process that could start one was
   * gone before, and then the name of the pipe was removed. The final observation, which is the proof, checks once more.
   */
  readonly #observedGone = new Set<string>()
  /** Collectors in terminals whose pid is known. */
  readonly #known = new Map<string, ProcessEntry>()

  constructor(deps: CollectorsDeps) {
    this.#deps = deps
  }

  async start(ref: LogRef, log: number, descriptors: Descriptors): Promise<LogHandle> {
    const { effects, inheritedTag } = this.#deps
    // The pipe is opened for reading and writing first, because opening a pipe for one side blocks until the other side is open.
    const both = descriptors.open(ref.pipe, O_RDWR | O_NONBLOCK)
    const reader = descriptors.open(ref.pipe, O_RDONLY)
    const fd = descriptors.open(ref.pipe, O_WRONLY)
    descriptors.close(both)
    effects.unlink(ref.pipe)
    const env = { PATH: '/usr/bin:/bin', [environmentTagName]: chainTag(inheritedTag, environmentTag(ref.mark)) }
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
    this.#own.set(ref.mark.resourceId, collector)
    return collector.handle
  }

  /**
   * Forgets collectors whose log was observed as absent. This happens at the next creation and not earlier, because the entry holds the
   * kernel's proof and the log may be observed once more.
   */
  forgetProven(): void {
    for (const [resourceId, { isProven }] of this.#own) if (isProven) this.#own.delete(resourceId)
  }

  /** Registers a collector that is not our child. When it has ended already, the scan for its environment tag finds that. */
  setPid(ref: LogRef, pid: number): void {
    const entry = this.#deps.processes.find(pid)
    if (entry) this.#known.set(ref.mark.resourceId, entry)
  }

  #isAlive({ pid, startTime }: ProcessEntry): boolean {
    return this.#deps.processes.find(pid)?.startTime === startTime
  }

  /** Observes now whether the collector is gone. */
  async isGone(ref: LogRef, ctx: Ctx): Promise<boolean> {
    const collector = this.#own.get(ref.mark.resourceId)
    const known = this.#known.get(ref.mark.resourceId)
    if (known) return !this.#isAlive(known)
    return collector ? collector.isGone : (await this.#deps.fallbackScan.observe(treeOf(ref), ctx)).is === 'absent'
  }

  /**
   * Called when the log was observed as absent. Marks the entry of its collector as no longer needed, and returns the strength of the
   * proof.
   */
  settle(ref: LogRef): Pick<Proof, 'strength'> {
    const collector = this.#own.get(ref.mark.resourceId)
    if (collector) collector.isProven = true
    this.#observedGone.delete(ref.mark.resourceId)
    const strength = this.#strength(ref)
    this.#known.delete(ref.mark.resourceId)
    return { strength }
  }

  /**
   * The strength of a proof: `kernel` for our children, whose exit the kernel reports, and for processes that pid and start time identify;
   * `scan` for all others.
   */
  #strength({ mark: { resourceId } }: LogRef): Proof['strength'] {
    return this.#own.has(resourceId) || this.#known.has(resourceId) ? 'kernel' : 'scan'
  }

  /** Closes our own end of the pipe, so that the stream ends with the agent. */
  done(ref: LogRef): void {
    this.#own.get(ref.mark.resourceId)?.handle.done()
  }

  async gone(ref: LogRef, ctx: Ctx): Promise<Proof['strength']> {
    await this.#ended(ref, ctx)
    return this.#strength(ref)
  }

  #ended(ref: LogRef, ctx: Ctx): Promise<unknown> {
    const id = ref.mark.resourceId
    const collector = this.#own.get(id)
    if (collector) return collector.exit
    if (this.#observedGone.has(id)) return Promise.resolve()
    const known = this.#known.get(id)
    if (known) return this.#endOf(known, ctx)
    return this.#deps.fallbackScan.gone(treeOf(ref), ctx).then(() => this.#observedGone.add(id))
  }

  /** The kernel reports no exit of a process that is not our child, so its end is polled. */
  async #endOf(entry: ProcessEntry, ctx: Ctx): Promise<void> {
    while (this.#isAlive(entry)) {
      if (ctx.signal.aborted) throw new Error('the wait was given up')
      await new Promise<void>((resolve) => ctx.clock.after(recheckMs, new AbortController().signal, resolve))
    }
  }

  async end(ref: LogRef, ctx: Ctx): Promise<void> {
    if (this.#observedGone.has(ref.mark.resourceId)) return
    if (!(await this.isGone(ref, ctx))) await this.#deps.fallbackScan.kill(treeOf(ref))
  }

  /**
   * Waits until the collector has read the end of the stream; then everything that was written is in the file. A foreign process may hold
   * the pipe open forever. Then the collector is killed, but only after it sleeps at an empty pipe and has received nothing for `quietMs`.
   */
  async drain(ref: LogRef, ctx: Ctx): Promise<void> {
    const { fallbackScan, effects } = this.#deps
    this.done(ref)
    // In a terminal the pipe was opened by its name. Without the name no other writer can open it.
    if (ref.writer === 'terminal') ignore('ENOENT', () => effects.unlink(ref.pipe))
    const tree = treeOf(ref)
    const ended = this.#ended(ref, ctx)
    for (let bytes = sizeOf(ref.path), isQuiet = false; !isQuiet; ) {
      const late = new Promise<'late'>((resolve) => ctx.clock.after(quietMs, ctx.signal, () => resolve('late')))
      if ((await Promise.race([ended, late])) !== 'late') return
      // An agent may have stopped the collector, which then reads nothing until it gets SIGCONT.
      await fallbackScan.signal(tree, ['SIGCONT'])
      const before = bytes
      bytes = sizeOf(ref.path)
      isQuiet = bytes === before && (await fallbackScan.isAsleep(tree))
    }
    await fallbackScan.kill(tree)
  }
}

/** The collector as a tree of the fallback scan, which finds it by its environment tag alone. */
function treeOf(ref: LogRef): Tree {
  const spec = { containment: 'scan', installation: ref.installation, program: 'cat', place: '' } as const
  return { mark: ref.mark, spec, main: undefined, place: '/nonexistent', limitPlaces: [] }
}
