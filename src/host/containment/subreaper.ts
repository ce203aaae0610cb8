import { existsSync, readdirSync } from 'node:fs'
import { createRequire, getCompileCacheDir } from 'node:module'
import { dirname, extname, join } from 'node:path'
import { errno, sentence } from '../../core/model/errors.ts'
import { chainTag, environmentTag, environmentTagName, isSafeId, type Mark, parseEnvironmentTags } from '../../core/model/identity.ts'
import { absent, type Presence, type Proof, present } from '../../core/model/resource.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Child, Effects } from '../../core/ports/effects.ts'
import type { Host } from '../../core/ports/host.ts'
import type { Ctx, Found, Owner } from '../../core/ports/kind.ts'
import type { Limits, TreeMember, TreePlace, TreeSpec } from '../../core/ports/process.ts'
import type { MarkedProcess, ProcessEntry, ProcessTable } from '../processes/process-table.ts'
import type { Containment, Tree, TreeStart } from './containment.ts'
import { type ScanContainment, signalEntry } from './scan.ts'
import { SubreaperHandle } from './subreaper-handle.ts'
import { subreaperSuffix } from './subreaper-messages.ts'
import { throughGates } from './trampoline.ts'

/**
 * The containment for Linux without a cgroup of our own. Each tree runs below a subreaper process, which no descendant can leave. The
 * subreaper process kills the tree on request, and when the supervisor dies. When it reports that no child is left, that is a proof of
 * strength `kernel`. It cannot report when it was killed, or when another supervisor started it. Then the fallback scan does the work, and
 * the proof has strength `scan`.
 */
export interface SubreaperDeps {
  readonly effects: Effects
  readonly host: Host
  readonly clock: Clock
  readonly processes: ProcessTable
  readonly inheritedTag: string | undefined
  /** The folder of the gate files; the fallback scan uses it too. */
  readonly gates: string
  readonly node: string
  readonly fallbackScan: ScanContainment
}

/**
 * Separates the incarnation from the resource id in the name of a gate file. The fallback scan uses a single `~`, so each containment finds
 * only its own files.
 */
const separator = '~~'

/** How long a subreaper process may leave a kill unanswered, and how long it may take to end its tree after its supervisor died. */
const patienceMs = 4_000
const recheckMs = 5

/** The interval of SIGCONT to a subreaper process that has not yet reported the start of the command. */
const wakeMs = 250

/** Why this containment is not available; undefined when it is. Looks for koffi without loading it. */
export function subreaperUnavailable(): string | undefined {
  if (process.platform !== 'linux') return 'only Linux has subreapers'
  try {
    createRequire(import.meta.url).resolve('koffi')
    return undefined
  } catch (error) {
    return errno(error) === 'MODULE_NOT_FOUND' ? 'koffi is not installed' : sentence(error)
  }
}

export class SubreaperContainment implements Containment {
  readonly name = 'subreaper'
  readonly #deps: SubreaperDeps
  readonly #subreaperProcesses = new Map<string, SubreaperHandle>()
  /** The time at which the wait for a subreaper process began, by resource id. One wait may last over several kills of a ladder. */
  readonly #waitingSinceMs = new Map<string, number>()

  constructor(deps: SubreaperDeps) {
    this.#deps = deps
  }

  place(limits?: Limits): TreePlace {
    this.#deps.fallbackScan.place(limits) // Throws when limits are set, which need the cgroup containment.
    return this.#placeOf(this.#deps.host.incarnationId)
  }

  #placeOf(incarnation: string): TreePlace {
    return { place: join(this.#deps.gates, `${incarnation}${separator}`) }
  }

  async start(tree: Tree, launch: TreeStart): Promise<Child> {
    const { effects, inheritedTag } = this.#deps
    this.#forgetSettled()
    effects.createFile(tree.place, '', 0o600)
    const env = { ...launch.env, [environmentTagName]: chainTag(inheritedTag, environmentTag(tree.mark)) }
    const child = await effects.spawn({
      program: this.#deps.node,
      // The channel comes after the command's own descriptors, which keep their numbers.
      argv: ['ebb-keeper', '--no-warnings', subreaperFile(), String(launch.stdio.length)],
      env: subreaperEnvironment(launch.env, chainTag(inheritedTag, subreaperTag(tree.mark))),
      cwd: '/',
      stdio: [...launch.stdio, 'pipe'],
      detached: launch.detached,
    })
    const subreaperProcess = new SubreaperHandle(child)
    this.#subreaperProcesses.set(tree.mark.resourceId, subreaperProcess)
    const { cwd, detached } = launch
    const descriptors = launch.stdio.flatMap((stream, fd) => (fd > 2 && stream !== 'ignore' ? [fd] : []))
    subreaperProcess.send({
      do: 'start',
      ...throughGates('file', [tree.place], { ...launch, mark: tree.mark }, env),
      env,
      cwd,
      detached,
      descriptors,
    })
    const pid = await this.#untilStarted(subreaperProcess)
    return { pid, exit: subreaperProcess.exit, stdin: child.stdin, firstLine: () => child.firstLine(), unref: () => child.unref() }
  }

  /**
   * Waits until the subreaper process reports the start of the command. The command may stop its subreaper process before that report.
   * Without SIGCONT the launch would then run into its timeout.
   */
  async #untilStarted(subreaperProcess: SubreaperHandle): Promise<number> {
    const settled = new AbortController()
    this.#deps.clock.every(wakeMs, settled.signal, () => this.#wake(subreaperProcess))
    try {
      return await subreaperProcess.started
    } finally {
      settled.abort()
    }
  }

  /** Always true: a command that a subreaper process started remains its descendant. */
  holds(): boolean {
    return true
  }

  async observe(tree: Tree, ctx: Ctx): Promise<Presence> {
    const subreaperProcess = this.#subreaperProcesses.get(tree.mark.resourceId)
    if (subreaperProcess?.state === 'running') return present(`its subreaper process (pid ${subreaperProcess.pid})`)
    if (subreaperProcess?.state === 'gone') {
      if (existsSync(tree.place)) return present('its gate')
      this.#settle(tree)
      return absent(kernelProof(ctx))
    }
    if (!subreaperProcess && (await this.#findSubreaper(tree))) return present('its subreaper process')
    const seen = await this.#deps.fallbackScan.observe(tree, ctx)
    if (seen.is === 'absent') this.#settle(tree)
    return seen
  }

  /** The handle is kept until the next start, because it holds the kernel's proof and the tree may be observed once more. */
  #settle({ mark: { resourceId } }: Tree): void {
    this.#waitingSinceMs.delete(resourceId)
    const subreaperProcess = this.#subreaperProcesses.get(resourceId)
    if (subreaperProcess) subreaperProcess.isSettled = true
  }

  async signal(tree: Tree, signals: readonly NodeJS.Signals[]): Promise<void> {
    const subreaperProcess = this.#subreaperProcesses.get(tree.mark.resourceId)
    if (subreaperProcess?.state === 'running') subreaperProcess.send({ do: 'signal', signals })
    else if (subreaperProcess?.state !== 'gone') await this.#deps.fallbackScan.signal(tree, signals)
  }

  /**
   * Removes the gate first, so that no process enters. Then sends the order to our own subreaper process. The subreaper process of a dead
   * supervisor has begun to kill by itself.
   */
  async kill(tree: Tree): Promise<void> {
    this.#removeGate(tree)
    const subreaperProcess = this.#subreaperProcesses.get(tree.mark.resourceId)
    if (subreaperProcess?.state === 'gone') return
    if (subreaperProcess?.state === 'running') {
      this.#wake(subreaperProcess)
      subreaperProcess.send({ do: 'kill' })
      return
    }
    const stranded = subreaperProcess ? undefined : await this.#findSubreaper(tree)
    if (stranded) signalEntry(this.#deps, stranded, 'SIGCONT')
    await this.#deps.fallbackScan.kill(tree)
  }

  /** Sends SIGCONT, because an agent may have stopped its subreaper process, which then reads no orders. */
  #wake(subreaperProcess: SubreaperHandle): void {
    const entry = subreaperProcess.isRunning ? this.#deps.processes.find(subreaperProcess.pid) : undefined
    if (entry) signalEntry(this.#deps, entry, 'SIGCONT')
  }

  async gone(tree: Tree, ctx: Ctx): Promise<Proof> {
    const subreaperProcess = this.#subreaperProcesses.get(tree.mark.resourceId)
    if (!subreaperProcess) await this.#strandedSubreaperLeft(tree, ctx)
    else {
      // A failed attempt to take over changes nothing: the wait goes on, and the next wait of the ladder tries again.
      const takeOver = (): void => void this.#takeOver(tree, subreaperProcess).catch(() => {})
      if (subreaperProcess.isUnresponsive) ctx.clock.after(this.#patienceLeftMs(tree, ctx), ctx.signal, takeOver)
      await Promise.race([subreaperProcess.ended, aborted(ctx)])
      if (subreaperProcess.state === 'gone') {
        this.#removeGate(tree)
        return kernelProof(ctx)
      }
    }
    return await this.#deps.fallbackScan.gone(tree, ctx)
  }

  #patienceLeftMs({ mark: { resourceId } }: Tree, { clock }: Ctx): number {
    const sinceMs = this.#waitingSinceMs.get(resourceId) ?? clock.now()
    this.#waitingSinceMs.set(resourceId, sinceMs)
    return Math.max(0, sinceMs + patienceMs - clock.now())
  }

  async #takeOver(tree: Tree, subreaperProcess: SubreaperHandle): Promise<void> {
    const entry =
      subreaperProcess.isUnresponsive && subreaperProcess.isRunning ? this.#deps.processes.find(subreaperProcess.pid) : undefined
    if (entry) await this.#killWithSubreaper(tree, entry)
  }

  /** Names the subreaper process as the main process of the tree, so that all its descendants are members, also those without a tag. */
  async #killWithSubreaper(tree: Tree, { pid, startTime }: ProcessEntry): Promise<void> {
    await this.#deps.fallbackScan.kill({ ...tree, main: { pid, startTime } })
  }

  async #strandedSubreaperLeft(tree: Tree, ctx: Ctx): Promise<void> {
    for (;;) {
      if (ctx.signal.aborted) throw new Error('the wait was given up')
      const entry = await this.#findSubreaper(tree)
      if (!entry) return
      if (this.#patienceLeftMs(tree, ctx) === 0) await this.#killWithSubreaper(tree, entry)
      await new Promise<void>((resolve) => ctx.clock.after(recheckMs, ctx.signal, resolve))
    }
  }

  async #findSubreaper(tree: Tree): Promise<ProcessEntry | undefined> {
    const wanted = subreaperTag(tree.mark)
    const found = (await this.#deps.processes.marked()).find(({ environmentTags }) => environmentTags.split(':').includes(wanted))
    return found && this.#deps.processes.find(found.pid)
  }

  #removeGate(tree: Tree): void {
    try {
      this.#deps.effects.unlink(tree.place)
    } catch (error) {
      if (errno(error) !== 'ENOENT') throw error
    }
  }

  /** Finds trees by their gates. Unless only some scopes are wanted, also by subreaper processes whose gate is gone. */
  async *list(owner: Owner): AsyncIterable<Found<TreeSpec>> {
    const { gates, host } = this.#deps
    const isWanted = ({ incarnation, resourceId }: Mark): boolean =>
      (owner.incarnation === undefined || incarnation === owner.incarnation) && isSafeId(resourceId)
    const seen = new Set<string>()
    for (const name of existsSync(gates) ? readdirSync(gates) : []) {
      const [incarnation = '', resourceId = ''] = name.split(separator)
      const mark = { installation: host.installation, incarnation, resourceId }
      if (!isWanted(mark)) continue
      seen.add(resourceId)
      yield this.#found(mark)
    }
    if (owner.scopeIds !== undefined) return
    for (const mark of subreaperMarks(await this.#deps.processes.marked())) {
      if (mark.installation === owner.installation && isWanted(mark) && !seen.has(mark.resourceId)) yield this.#found(mark)
    }
  }

  #found({ installation, incarnation, resourceId }: Mark): Found<TreeSpec> {
    const { place } = this.#placeOf(incarnation)
    const spec: TreeSpec = { containment: this.name, installation, program: 'unknown', place }
    return { resourceId, incarnation, name: place + resourceId, spec }
  }

  members(): Iterable<TreeMember> {
    return []
  }

  async tidy(): Promise<void> {}

  /**
   * When this process ends, every channel closes, which makes the subreaper processes kill. The order to kill only comes a moment earlier.
   */
  killAllNow(): void {
    for (const subreaperProcess of this.#subreaperProcesses.values())
      if (subreaperProcess.state === 'running') subreaperProcess.send({ do: 'kill' })
  }

  #forgetSettled(): void {
    for (const [resourceId, subreaperProcess] of this.#subreaperProcesses)
      if (subreaperProcess.isSettled) this.#subreaperProcesses.delete(resourceId)
  }
}

/** The program of the subreaper process. It lies beside this file, in the sources and in the bundle. */
function subreaperFile(): string {
  return join(import.meta.dirname, `subreaper-process${extname(import.meta.filename)}`)
}

function subreaperTag(mark: Mark): string {
  return environmentTag(mark) + subreaperSuffix
}

function subreaperMarks(processes: readonly MarkedProcess[]): readonly Mark[] {
  const parts = processes.flatMap(({ environmentTags }) => environmentTags.split(':')).filter((part) => part.endsWith(subreaperSuffix))
  return parts.flatMap((part) => parseEnvironmentTags(part.slice(0, -subreaperSuffix.length)))
}

/**
 * The environment of a subreaper process: its tag, and only the variables that Node itself may need to start. A NODE_OPTIONS of the user is
 * meant for the command, so it is left out.
 */
function subreaperEnvironment(env: Readonly<Record<string, string>>, mark: string): Record<string, string> {
  const cache = getCompileCacheDir()
  return {
    [environmentTagName]: mark,
    ...(env.LD_LIBRARY_PATH !== undefined && { LD_LIBRARY_PATH: env.LD_LIBRARY_PATH }),
    ...(cache !== undefined && { NODE_COMPILE_CACHE: dirname(cache) }),
  }
}

function kernelProof(ctx: Ctx): Proof {
  return { method: 'subreaper process reaped its last descendant', strength: 'kernel', at: ctx.clock.wall() }
}

function aborted(ctx: Ctx): Promise<never> {
  return new Promise((_, reject) => {
    const giveUp = (): void => reject(new Error('the wait was given up'))
    if (ctx.signal.aborted) giveUp()
    else ctx.signal.addEventListener('abort', giveUp, { once: true })
  })
}
