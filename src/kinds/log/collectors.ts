import { constants } from 'node:fs'
import { chainTag, environmentTag, environmentTagName } from '../../core/model/identity.ts'
import type { Proof } from '../../core/model/resource.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Ctx } from '../../core/ports/kind.ts'
import type { LogHandle } from '../../core/ports/process.ts'
import type { Tree } from '../../host/containment/containment.ts'
import type { ScanContainment } from '../../host/containment/scan.ts'
import type { ProcessEntry, ProcessTable } from '../../host/processes/process-table.ts'
import type { Descriptors } from './descriptors.ts'
import { ignore, sizeOf } from './files.ts'
import type { LogRef } from './place.ts'

const { O_RDWR, O_RDONLY, O_WRONLY, O_NONBLOCK } = constants

/** A collector for which nothing has come for so long waits for somebody who is not ours. */
const quietMs = 2_000

/** Between two looks at one that is on its way out. */
const lookMs = 2

interface Collector {
  readonly exit: Promise<unknown>
  readonly handle: LogHandle
  isGone: boolean
  /** Its log was seen absent. */
  isProven: boolean
}

export interface CollectorsDeps {
  readonly effects: Effects
  readonly inheritedTag: string | undefined
  readonly fallbackScan: ScanContainment
  readonly processes: ProcessTable
}

/** The tiny processes between agents and their logs: our children, or others' and found by their cookie. */
export class Collectors {
  readonly #deps: CollectorsDeps
  readonly #own = new Map<string, Collector>()
  /**
   * Of those that are no children of ours, which were seen gone. The pipe's name goes first, and whoever could start one
   * before that, so they do not come back; the last look, which is the proof, looks again all the same.
   */
  readonly #seenGone = new Set<string>()
  /** Those in terminals of which we were told the pid. */
  readonly #known = new Map<string, ProcessEntry>()

  constructor(deps: CollectorsDeps) {
    this.#deps = deps
  }

  async start(ref: LogRef, log: number, descriptors: Descriptors): Promise<LogHandle> {
    const { effects, inheritedTag } = this.#deps
    // Opened for both first, because an open for one side alone would wait for the other.
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

  /** Not before the next creation, in case that it is looked at once more: the kernel's proof is in it. */
  forgetProven(): void {
    for (const [resourceId, { isProven }] of this.#own) if (isProven) this.#own.delete(resourceId)
  }

  /** Where one was started that is no child of ours. One that has ended by now is found to be gone by its mark. */
  know(ref: LogRef, pid: number): void {
    const entry = this.#deps.processes.find(pid)
    if (entry) this.#known.set(ref.mark.resourceId, entry)
  }

  #isAlive({ pid, startTime }: ProcessEntry): boolean {
    return this.#deps.processes.find(pid)?.startTime === startTime
  }

  /** By a look of this moment. */
  async isGone(ref: LogRef, ctx: Ctx): Promise<boolean> {
    const collector = this.#own.get(ref.mark.resourceId)
    const known = this.#known.get(ref.mark.resourceId)
    if (known) return !this.#isAlive(known)
    return collector ? collector.isGone : (await this.#deps.fallbackScan.observe(treeOf(ref), ctx)).is === 'absent'
  }

  /** Its log is seen absent, and nothing more needs to be known of it. */
  proven(ref: LogRef): Pick<Proof, 'strength'> {
    const collector = this.#own.get(ref.mark.resourceId)
    if (collector) collector.isProven = true
    this.#seenGone.delete(ref.mark.resourceId)
    const strength = this.#strength(ref)
    this.#known.delete(ref.mark.resourceId)
    return { strength }
  }

  /** The kernel tells a parent of its child's end, and anybody of that of a process he knows; what he does not know can only be looked for. */
  #strength({ mark: { resourceId } }: LogRef): Proof['strength'] {
    return this.#own.has(resourceId) || this.#known.has(resourceId) ? 'kernel' : 'scan'
  }

  /** Our own end of the pipe is closed: the end of the agent is the end of the stream. */
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
    if (this.#seenGone.has(id)) return Promise.resolve()
    const known = this.#known.get(id)
    if (known) return this.#endOf(known, ctx)
    return this.#deps.fallbackScan.gone(treeOf(ref), ctx).then(() => this.#seenGone.add(id))
  }

  /** Nobody tells us of the end of a process that is not our child. */
  async #endOf(entry: ProcessEntry, ctx: Ctx): Promise<void> {
    while (this.#isAlive(entry)) {
      if (ctx.signal.aborted) throw new Error('the wait was given up')
      await new Promise<void>((resolve) => ctx.clock.after(lookMs, new AbortController().signal, resolve))
    }
  }

  async end(ref: LogRef, ctx: Ctx): Promise<void> {
    if (this.#seenGone.has(ref.mark.resourceId)) return
    if (!(await this.isGone(ref, ctx))) await this.#deps.fallbackScan.kill(treeOf(ref))
  }

  /**
   * Everything that was written is in the file once the collector has seen the end of the stream. A stranger may hold it
   * open for ever: then the collector is ended, but only when it has found the pipe empty, and nothing came, for a while.
   */
  async drain(ref: LogRef, ctx: Ctx): Promise<void> {
    const { fallbackScan, effects } = this.#deps
    this.done(ref)
    // Nobody may come in at the pipe any more; one in a terminal was opened by its name.
    if (ref.writer === 'terminal') ignore('ENOENT', () => effects.unlink(ref.pipe))
    const tree = treeOf(ref)
    const ended = this.#ended(ref, ctx)
    for (let bytes = sizeOf(ref.path), isQuiet = false; !isQuiet; ) {
      const late = new Promise<'late'>((resolve) => ctx.clock.after(quietMs, ctx.signal, () => resolve('late')))
      if ((await Promise.race([ended, late])) !== 'late') return
      // An agent may have stopped it, and a stopped one collects nothing.
      await fallbackScan.signal(tree, ['SIGCONT'])
      const before = bytes
      bytes = sizeOf(ref.path)
      isQuiet = bytes === before && (await fallbackScan.isAsleep(tree))
    }
    await fallbackScan.kill(tree)
  }
}

/** The collector as the net knows it: by its cookie alone. */
function treeOf(ref: LogRef): Tree {
  const spec = { containment: 'scan', installation: ref.installation, program: 'cat', place: '' } as const
  return { mark: ref.mark, spec, main: undefined, place: '/nonexistent', limitPlaces: [] }
}
