import { existsSync, readdirSync } from 'node:fs'
import { createRequire, getCompileCacheDir } from 'node:module'
import { dirname, extname, join } from 'node:path'
import { errno, sentence } from '../../core/model/errors.ts'
import { chainCookie, cookie, cookieName, isSafeId, type Mark, parseCookies } from '../../core/model/identity.ts'
import { absent, type Presence, type Proof, present } from '../../core/model/resource.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Child, Effects } from '../../core/ports/effects.ts'
import type { Host } from '../../core/ports/host.ts'
import type { Ctx, Found, Owner } from '../../core/ports/kind.ts'
import type { Limits, TreeMember, TreePlace } from '../../core/ports/process.ts'
import type { MarkedProcess, ProcessEntry, ProcessTable } from '../processes/process-table.ts'
import type { Containment, Tree, TreeStart } from './containment.ts'
import { KeeperHandle } from './keeper-handle.ts'
import { keeperSuffix } from './keeper-messages.ts'
import { type ScanContainment, signalEntry } from './scan.ts'
import { throughDoors } from './trampoline.ts'

/**
 * The containment for Linux without a cgroup of our own: each tree hangs below a keeper, a subreaper that no descendant
 * can leave, and that kills it when we say so or when we die. Its word is the kernel's proof. Where that word cannot be
 * had (a keeper that was killed, or that another supervisor started) the net does the work, and its proof is marked `scan`.
 */
export interface SubreaperDeps {
  readonly effects: Effects
  readonly host: Host
  readonly clock: Clock
  readonly processes: ProcessTable
  readonly inheritedCookie: string | undefined
  /** Where the doors are; shared with the net. */
  readonly doors: string
  readonly node: string
  readonly net: ScanContainment
}

/** Two of them, where the net's own doors have one: neither takes the other's for its own. */
const separator = '~~'

/** How long a keeper may be silent after a kill, and one whose supervisor died may take to end its tree. */
const patienceMs = 4_000
const lookMs = 5

/** One that has not said that the command has started is woken this often. */
const wakeMs = 250

/** Why it is not available here; undefined when it is. Looks for koffi without loading it. */
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
  readonly #keepers = new Map<string, KeeperHandle>()
  /** Since when a keeper is waited for, across the kills of a ladder. */
  readonly #waitingSinceMs = new Map<string, number>()

  constructor(deps: SubreaperDeps) {
    this.#deps = deps
  }

  place(limits?: Limits): TreePlace {
    this.#deps.net.place(limits) // Refuses limits, as we must.
    return this.#placeOf(this.#deps.host.incarnationId)
  }

  #placeOf(incarnation: string): TreePlace {
    return { place: join(this.#deps.doors, `${incarnation}${separator}`) }
  }

  async start(tree: Tree, launch: TreeStart): Promise<Child> {
    const { effects, inheritedCookie } = this.#deps
    this.#forgetSettled()
    effects.createFile(tree.place, '', 0o600)
    const env = { ...launch.env, [cookieName]: chainCookie(inheritedCookie, cookie(tree.mark)) }
    const child = await effects.spawn({
      program: this.#deps.node,
      // The channel comes after the command's own descriptors, which keep their numbers.
      argv: ['ebb-keeper', '--no-warnings', keeperFile(), String(launch.stdio.length)],
      env: keeperEnvironment(launch.env, chainCookie(inheritedCookie, keeperCookie(tree.mark))),
      cwd: '/',
      stdio: [...launch.stdio, 'pipe'],
      detached: launch.detached,
    })
    const keeper = new KeeperHandle(child)
    this.#keepers.set(tree.mark.resourceId, keeper)
    const { cwd, detached } = launch
    const descriptors = launch.stdio.flatMap((stream, fd) => (fd > 2 && stream !== 'ignore' ? [fd] : []))
    keeper.tell({
      do: 'start',
      ...throughDoors('file', [tree.place], { ...launch, mark: tree.mark }, env),
      env,
      cwd,
      detached,
      descriptors,
    })
    const pid = await this.#untilStarted(keeper)
    return { pid, exit: keeper.exit, stdin: child.stdin, firstLine: () => child.firstLine(), unref: () => child.unref() }
  }

  /** The command, or anybody, may stop its keeper before we have heard of it, and the launch would wait for its whole time. */
  async #untilStarted(keeper: KeeperHandle): Promise<number> {
    const over = new AbortController()
    this.#deps.clock.every(wakeMs, over.signal, () => this.#wake(keeper))
    try {
      return await keeper.started
    } finally {
      over.abort()
    }
  }

  /** What a keeper has started is its descendant for good. */
  holds(): boolean {
    return true
  }

  async observe(tree: Tree, ctx: Ctx): Promise<Presence> {
    const keeper = this.#keepers.get(tree.mark.resourceId)
    if (keeper?.state === 'running') return present(`its keeper (pid ${keeper.pid})`)
    if (keeper?.state === 'gone') {
      if (existsSync(tree.place)) return present('its door')
      this.#settle(tree)
      return absent(kernelProof(ctx))
    }
    if (!keeper && (await this.#findKeeper(tree))) return present('its keeper')
    const seen = await this.#deps.net.observe(tree, ctx)
    if (seen.is === 'absent') this.#settle(tree)
    return seen
  }

  /** Kept until the next start, in case that it is looked at once more: the kernel's proof is in it. */
  #settle({ mark: { resourceId } }: Tree): void {
    this.#waitingSinceMs.delete(resourceId)
    const keeper = this.#keepers.get(resourceId)
    if (keeper) keeper.isSettled = true
  }

  async signal(tree: Tree, signals: readonly NodeJS.Signals[]): Promise<void> {
    const keeper = this.#keepers.get(tree.mark.resourceId)
    if (keeper?.state === 'running') keeper.tell({ do: 'signal', signals })
    else if (keeper?.state !== 'gone') await this.#deps.net.signal(tree, signals)
  }

  /** The door first, so that nobody enters. Ours is told; another's has noticed its supervisor's death by itself. */
  async kill(tree: Tree): Promise<void> {
    this.#removeDoor(tree)
    const keeper = this.#keepers.get(tree.mark.resourceId)
    if (keeper?.state === 'gone') return
    if (keeper?.state === 'running') {
      this.#wake(keeper)
      keeper.tell({ do: 'kill' })
      return
    }
    const stranded = keeper ? undefined : await this.#findKeeper(tree)
    if (stranded) signalEntry(this.#deps, stranded, 'SIGCONT')
    await this.#deps.net.kill(tree)
  }

  /** An agent may have stopped its keeper, and a stopped one hears nothing. */
  #wake(keeper: KeeperHandle): void {
    const entry = keeper.isThere ? this.#deps.processes.find(keeper.pid) : undefined
    if (entry) signalEntry(this.#deps, entry, 'SIGCONT')
  }

  async gone(tree: Tree, ctx: Ctx): Promise<Proof> {
    const keeper = this.#keepers.get(tree.mark.resourceId)
    if (!keeper) await this.#strandedKeeperLeft(tree, ctx)
    else {
      const takeOver = (): void => void this.#takeOver(tree, keeper).catch(() => {})
      if (keeper.isDeaf) ctx.clock.after(this.#patienceLeftMs(tree, ctx), ctx.signal, takeOver)
      await Promise.race([keeper.ended, aborted(ctx)])
      if (keeper.state === 'gone') {
        this.#removeDoor(tree)
        return kernelProof(ctx)
      }
    }
    return await this.#deps.net.gone(tree, ctx)
  }

  #patienceLeftMs({ mark: { resourceId } }: Tree, { clock }: Ctx): number {
    const sinceMs = this.#waitingSinceMs.get(resourceId) ?? clock.now()
    this.#waitingSinceMs.set(resourceId, sinceMs)
    return Math.max(0, sinceMs + patienceMs - clock.now())
  }

  async #takeOver(tree: Tree, keeper: KeeperHandle): Promise<void> {
    const entry = keeper.isDeaf && keeper.isThere ? this.#deps.processes.find(keeper.pid) : undefined
    if (entry) await this.#killWithKeeper(tree, entry)
  }

  /** With the keeper as the tree's main process everything below it is a member, marked or not. */
  async #killWithKeeper(tree: Tree, { pid, startTime }: ProcessEntry): Promise<void> {
    await this.#deps.net.kill({ ...tree, main: { pid, startTime } })
  }

  async #strandedKeeperLeft(tree: Tree, ctx: Ctx): Promise<void> {
    for (;;) {
      if (ctx.signal.aborted) throw new Error('the wait was given up')
      const entry = await this.#findKeeper(tree)
      if (!entry) return
      if (this.#patienceLeftMs(tree, ctx) === 0) await this.#killWithKeeper(tree, entry)
      await new Promise<void>((resolve) => ctx.clock.after(lookMs, ctx.signal, resolve))
    }
  }

  async #findKeeper(tree: Tree): Promise<ProcessEntry | undefined> {
    const wanted = keeperCookie(tree.mark)
    const found = (await this.#deps.processes.marked()).find(({ cookies }) => cookies.split(':').includes(wanted))
    return found && this.#deps.processes.find(found.pid)
  }

  #removeDoor(tree: Tree): void {
    try {
      this.#deps.effects.unlink(tree.place)
    } catch (error) {
      if (errno(error) !== 'ENOENT') throw error
    }
  }

  /** By their doors; and, where all of an incarnation's are asked for, by keepers whose door is gone. */
  async *list(owner: Owner): AsyncIterable<Found> {
    const { doors, host } = this.#deps
    const isWanted = ({ incarnation, resourceId }: Mark): boolean =>
      (owner.incarnation === undefined || incarnation === owner.incarnation) && isSafeId(resourceId)
    const seen = new Set<string>()
    for (const name of existsSync(doors) ? readdirSync(doors) : []) {
      const [incarnation = '', resourceId = ''] = name.split(separator)
      const mark = { installation: host.installation, incarnation, resourceId }
      if (!isWanted(mark)) continue
      seen.add(resourceId)
      yield this.#found(mark)
    }
    if (owner.scopeIds !== undefined) return
    for (const mark of keeperMarks(await this.#deps.processes.marked())) {
      if (mark.installation === owner.installation && isWanted(mark) && !seen.has(mark.resourceId)) yield this.#found(mark)
    }
  }

  #found({ installation, incarnation, resourceId }: Mark): Found {
    const { place } = this.#placeOf(incarnation)
    const spec = { containment: this.name, installation, program: 'unknown', place }
    return { resourceId, incarnation, name: place + resourceId, spec }
  }

  members(): Iterable<TreeMember> {
    return []
  }

  async tidy(): Promise<void> {}

  /** The end of our process is the end of every channel, and that is a kill; this only comes a moment earlier. */
  killAllNow(): void {
    for (const keeper of this.#keepers.values()) if (keeper.state === 'running') keeper.tell({ do: 'kill' })
  }

  #forgetSettled(): void {
    for (const [resourceId, keeper] of this.#keepers) if (keeper.isSettled) this.#keepers.delete(resourceId)
  }
}

/** Beside us, in the sources as in the bundle. */
function keeperFile(): string {
  return join(import.meta.dirname, `keeper${extname(import.meta.filename)}`)
}

function keeperCookie(mark: Mark): string {
  return cookie(mark) + keeperSuffix
}

function keeperMarks(processes: readonly MarkedProcess[]): readonly Mark[] {
  const parts = processes.flatMap(({ cookies }) => cookies.split(':')).filter((part) => part.endsWith(keeperSuffix))
  return parts.flatMap((part) => parseCookies(part.slice(0, -keeperSuffix.length)))
}

/** Nothing of the user's but what Node itself may need to start: a NODE_OPTIONS that is meant for the command stays out. */
function keeperEnvironment(env: Readonly<Record<string, string>>, mark: string): Record<string, string> {
  const cache = getCompileCacheDir()
  return {
    [cookieName]: mark,
    ...(env.LD_LIBRARY_PATH !== undefined && { LD_LIBRARY_PATH: env.LD_LIBRARY_PATH }),
    ...(cache !== undefined && { NODE_COMPILE_CACHE: dirname(cache) }),
  }
}

function kernelProof(ctx: Ctx): Proof {
  return { method: 'keeper reaped its last descendant', strength: 'kernel', at: ctx.clock.wall() }
}

function aborted(ctx: Ctx): Promise<never> {
  return new Promise((_, reject) => {
    const giveUp = (): void => reject(new Error('the wait was given up'))
    if (ctx.signal.aborted) giveUp()
    else ctx.signal.addEventListener('abort', giveUp, { once: true })
  })
}
