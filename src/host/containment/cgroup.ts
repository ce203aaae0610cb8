import { accessSync, constants, existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { EbbError, errno, sentence } from '../../core/model/errors.ts'
import { chainTag, environmentTag, environmentTagName, isSafeId } from '../../core/model/identity.ts'
import { absent, type OnLoss, type Presence, type Proof, present, unknown } from '../../core/model/resource.ts'
import type { Child, Effects } from '../../core/ports/effects.ts'
import type { Host } from '../../core/ports/host.ts'
import type { Ctx, Found, Owner } from '../../core/ports/kind.ts'
import type { Limits, TreeMember, TreePlace } from '../../core/ports/process.ts'
import type { ProcessEntry, ProcessTable } from '../processes/process-table.ts'
import { type CgroupMount, findCgroup2, findRoots, isGone, isPopulated, members, removeCgroup, subdirectories } from './cgroup-files.ts'
import { killCgroup, trySignal } from './cgroup-kill.ts'
import { CgroupKnock } from './cgroup-knock.ts'
import { emptied, lookAgain } from './cgroup-wait.ts'
import type { Containment, Tree, TreeStart } from './containment.ts'
import { applyLimits, limitPlaces, removeLostLimits } from './limits.ts'
import { signalEntry } from './scan.ts'
import { throughGates } from './trampoline.ts'

/**
 * The strongest containment: a cgroup v2 directory per tree, `ebb-INSTALLATION/INCARNATION/{end,keep}/RESOURCE`, below our own
 * cgroup, so that an Ebb inside an agent of another Ebb cannot escape it. The kernel kills all of it at once and vouches
 * that it is empty; the directories are a second ledger.
 */
export interface CgroupDeps {
  readonly effects: Effects
  readonly host: Host
  readonly processes: ProcessTable
  readonly inheritedTag: string | undefined
}

/** What ends with its supervisor, and what does not: the sentinel's one write reaches the first alone. */
const end = 'end'
const keep = 'keep'
/** Of the tmux server, which is nobody's agent. */
const terminals = 'tmux'

/** The few lines between a spawn and its command die within milliseconds of their signal; one who stays outside longer has moved there. */
const gateObservations = 100

/** A tmux server leaves within milliseconds of its last session; one that stays longer has somebody else's. */
const terminalLooks = 200

/** The signals that a tree was sent, who was there for the first of them, and who came too late; known from the first look on. */
interface Told {
  readonly signals: readonly NodeJS.Signals[]
  readonly pids: Set<number>
  late?: readonly number[]
}

export function cgroupAvailable(): { readonly mount: CgroupMount } | { readonly reason: string } {
  let mount: CgroupMount | undefined
  try {
    mount = findCgroup2(readFileSync('/proc/self/mountinfo', 'utf8'), readFileSync('/proc/self/cgroup', 'utf8'))
  } catch (error) {
    return { reason: `this system has no cgroups (${sentence(error)})` }
  }
  if (!mount) return { reason: 'cgroup v2 is not mounted where this process can see it' }
  try {
    accessSync(mount.own, constants.W_OK)
    accessSync(join(mount.own, 'cgroup.procs'), constants.W_OK)
  } catch {
    return { reason: 'this process may not make cgroups below its own' }
  }
  return { mount }
}

export class CgroupContainment implements Containment {
  readonly name = 'cgroup'
  readonly #deps: CgroupDeps
  readonly #mount: CgroupMount
  readonly #killedBefore = new Set<string>()
  readonly #told = new Map<string, Told>()
  readonly #knock = new CgroupKnock()
  /** `…/ebb-INSTALLATION` */
  readonly #root: string

  constructor(mount: CgroupMount, deps: CgroupDeps) {
    this.#deps = deps
    this.#mount = mount
    this.#root = join(mount.own, `ebb-${deps.host.installation}`)
  }

  place(limits?: Limits, onLoss: OnLoss = 'end'): TreePlace {
    const { installation, incarnationId } = this.#deps.host
    const places = limits ? limitPlaces(limits, limitPrefix(installation, incarnationId)) : []
    return {
      place: `${join(this.#root, incarnationId, onLoss === 'keep' ? keep : end)}/`,
      ...(places.length > 0 && { limitPlaces: places }),
    }
  }

  expectLaunch(): void {
    this.#knock.at(this.#mount.own)
  }

  async start(tree: Tree, launch: TreeStart): Promise<Child> {
    const directory = tree.place
    this.#makeTree(directory)
    if (!existsSync(join(directory, 'cgroup.kill'))) {
      throw new EbbError('containment_unavailable', 'This kernel has no cgroup.kill (it came with Linux 5.14); use --containment scan.')
    }
    const limitGates = applyLimits(tree, launch.limits, this.#deps.effects)
    this.#knock.at(directory)
    const env = { ...launch.env, [environmentTagName]: chainTag(this.#deps.inheritedTag, environmentTag(tree.mark)) }
    const command = throughGates('cgroup', [join(directory, 'cgroup.procs'), ...limitGates], { ...launch, mark: tree.mark }, env)
    return await (launch.spawn ?? this.#deps.effects.spawn)({
      ...command,
      env,
      cwd: launch.cwd,
      stdio: launch.stdio,
      detached: launch.detached,
    })
  }

  /** Another supervisor may remove the shared root, empty for a moment, between two of these; then it is made again. */
  #makeTree(directory: string): void {
    const parents = [this.#root, dirname(dirname(directory)), dirname(directory)]
    for (let attempt = 0; ; attempt++) {
      try {
        for (const parent of parents) if (!existsSync(parent)) this.#makeIfMissing(parent)
        this.#deps.effects.makeDirectory(directory, 0o755)
        return
      } catch (error) {
        if (errno(error) !== 'ENOENT' || attempt === 100) throw error
      }
    }
  }

  #makeIfMissing(directory: string): void {
    try {
      this.#deps.effects.makeDirectory(directory, 0o755)
    } catch (error) {
      if (errno(error) !== 'EEXIST') throw error
    }
  }

  async observe(tree: Tree, ctx: Ctx): Promise<Presence> {
    if (!existsSync(join(this.#mount.mountPoint, 'cgroup.procs'))) return unknown('cgroup v2 is not mounted here any more')
    const populated = isPopulated(tree.place)
    if (populated !== undefined) return present(populated ? `${members(tree.place).length} processes in its cgroup` : 'its empty cgroup')
    const limit = tree.limitPlaces.find((place) => existsSync(place))
    if (limit !== undefined) return present(`the limit ${limit}`)
    return absent({ method: 'cgroup removed', strength: 'kernel', at: ctx.clock.wall() })
  }

  holds(tree: Tree, pid: number): boolean {
    return isMember(pid, tree.place.slice(this.#mount.mountPoint.length))
  }

  /** The door to a place that is no tree: for the tmux server, so that no supervisor's end is its end. */
  terminalGate(): string {
    const directory = join(this.#root, terminals)
    for (const folder of [this.#root, directory]) if (!existsSync(folder)) this.#makeIfMissing(folder)
    return join(directory, 'cgroup.procs')
  }

  async signal(tree: Tree, signals: readonly NodeJS.Signals[]): Promise<void> {
    const inside = tree.place.slice(this.#mount.mountPoint.length)
    const atTheGate = this.#atTheGate(tree, inside)
    const pids = new Set<number>(atTheGate ? [atTheGate.pid] : [])
    this.#told.set(tree.place, { signals, pids })
    // Read anew for each signal: of a thousand that were sent the first, most need no second.
    for (const signal of signals) {
      // First: what it starts until it has the signal is then on the list.
      if (atTheGate) signalEntry(this.#deps, atTheGate, signal)
      const readMs = performance.now()
      for (const pid of members(tree.place)) {
        if (pid === atTheGate?.pid) continue
        if (performance.now() - readMs < freshMs || isMember(pid, inside)) trySignal(this.#deps.effects, pid, signal)
        if (signal === signals[0]) pids.add(pid)
      }
    }
  }

  /**
   * Who was forked while the others were being told has heard nothing. As long as its parent lives, that is its parent's
   * business; when the parent has died of the signal, it would be waited for until the grace is over.
   */
  #tellLate({ place }: Tree): void {
    const told = this.#told.get(place)
    if (!told) return
    const inside = members(place)
    told.late ??= inside.filter((pid) => !told.pids.has(pid))
    for (const pid of told.late) {
      const entry = this.#deps.processes.find(pid)
      if (entry && inside.includes(entry.ppid)) continue
      told.late = told.late.filter((one) => one !== pid)
      if (entry && inside.includes(pid)) for (const signal of told.signals) signalEntry(this.#deps, entry, signal)
    }
    if (told.late.length === 0) this.#told.delete(place)
  }

  /** A main process that was spawned a moment ago is not inside yet; it would enter behind our back, and be told nothing. */
  #atTheGate({ main }: Tree, inside: string): ProcessEntry | undefined {
    const entry = main && !isMember(main.pid, inside) ? this.#deps.processes.find(main.pid) : undefined
    return entry && entry.startTime === main?.startTime ? entry : undefined
  }

  /** cgroup.kill passes over a process whose main thread has ended; who is still there at a second kill gets a signal of its own. */
  async kill(tree: Tree): Promise<void> {
    this.#told.delete(tree.place)
    killCgroup(tree.place, this.#deps.effects)
    if (this.#killedBefore.has(tree.place)) for (const pid of members(tree.place)) trySignal(this.#deps.effects, pid, 'SIGKILL')
    this.#killedBefore.add(tree.place)
  }

  async gone(tree: Tree, ctx: Ctx): Promise<Proof> {
    await this.#left(tree, ctx)
    this.#told.delete(tree.place)
    removeCgroup(tree.place, this.#deps.effects)
    for (const place of tree.limitPlaces) removeCgroup(place, this.#deps.effects)
    this.#killedBefore.delete(tree.place)
    // Of a tree that outlived its supervisor the folders above have nobody else.
    if (tree.mark.incarnation !== this.#deps.host.incarnationId) this.#removeFolders(dirname(dirname(tree.place)))
    return { method: 'cgroup empty and removed', strength: 'kernel', at: ctx.clock.wall() }
  }

  /** Who was told at the door is in no cgroup while it dies: without a look there it would seem to have left its containment. */
  async #left(tree: Tree, ctx: Ctx): Promise<void> {
    const inside = tree.place.slice(this.#mount.mountPoint.length)
    const isTold = tree.main !== undefined && this.#told.get(tree.place)?.pids.has(tree.main.pid) === true
    const isEmpty = (): Promise<void> => emptied(tree.place, ctx, () => this.#tellLate(tree))
    await isEmpty()
    if (!isTold) return
    for (let looks = 0; looks < gateObservations && this.#atTheGate(tree, inside); looks++) {
      await lookAgain(ctx)
      await isEmpty()
    }
  }

  /** Below our own cgroup for our own incarnation; anywhere in the hierarchy for the others'. */
  async *list(owner: Owner): AsyncIterable<Found> {
    const isOwn = owner.incarnation === this.#deps.host.incarnationId
    const roots = isOwn ? [this.#root] : findRoots(this.#mount.mountPoint, basename(this.#root))
    for (const root of roots) {
      for (const incarnation of subdirectories(root).filter((name) => name !== terminals)) {
        if (owner.incarnation !== undefined && incarnation !== owner.incarnation) continue
        for (const place of this.#places(root, incarnation)) {
          const resourceId = basename(place)
          const spec = {
            containment: this.name,
            installation: this.#deps.host.installation,
            program: 'unknown',
            place: `${dirname(place)}/`,
          }
          yield { resourceId, incarnation, name: place, spec }
        }
      }
    }
  }

  *members(): Iterable<TreeMember> {
    for (const root of findRoots(this.#mount.mountPoint, basename(this.#root))) {
      for (const incarnation of subdirectories(root).filter((name) => name !== terminals)) {
        for (const place of this.#places(root, incarnation))
          for (const pid of members(place)) yield { pid, resourceId: basename(place), incarnation }
      }
    }
  }

  async tidy(incarnation: string, ctx: Ctx): Promise<void> {
    const { host, effects } = this.#deps
    // Our own limits went with their trees; a lost record does not say which limits a tree had.
    if (incarnation !== host.incarnationId) removeLostLimits(limitPrefix(host.installation, incarnation), effects)
    for (const root of findRoots(this.#mount.mountPoint, basename(this.#root))) {
      this.#removeFolders(join(root, incarnation))
      await this.#terminalsLeft(root, ctx)
      this.#removeFolders(join(root, incarnation))
    }
  }

  /** Where nothing else stands any more, the tmux server is leaving, too, and nobody comes after us to take its place away. */
  async #terminalsLeft(root: string, ctx: Ctx): Promise<void> {
    const directory = join(root, terminals)
    const isLast = (): boolean => subdirectories(root).every((name) => name === terminals) && isPopulated(directory) === true
    for (let looks = 0; looks < terminalLooks && isLast(); looks++) await lookAgain(ctx)
  }

  /** Of an incarnation, and the root with the last of them; what is not empty is somebody's. */
  #removeFolders(folder: string): void {
    const root = dirname(folder)
    const inner = [join(folder, end), join(folder, keep), join(root, terminals)].map((directory) => this.#remove(directory))
    if (inner[0] && inner[1] && this.#remove(folder) && inner[2]) this.#remove(root)
  }

  /** A supervisor that died while it made them has the outer one only. */
  #remove(directory: string): boolean {
    try {
      this.#deps.effects.removeDirectory(directory)
      return true
    } catch (error) {
      return isGone(error)
    }
  }

  #places(root: string, incarnation: string): readonly string[] {
    return [end, keep].flatMap((sort) => {
      const folder = join(root, incarnation, sort)
      return subdirectories(folder)
        .filter(isSafeId)
        .map((resourceId) => join(folder, resourceId))
    })
  }

  /** What the sentinel writes to when we are dead. */
  get killSwitch(): string {
    return join(this.#root, this.#deps.host.incarnationId, end, 'cgroup.kill')
  }

  killAllNow(): void {
    try {
      this.#deps.effects.write(this.killSwitch, '1')
    } catch {
      // Nothing was ever started, or it is gone already.
    }
  }
}

/** Of the names of v1 limits; a resource's id follows. */
function limitPrefix(installation: string, incarnation: string): string {
  return `ebb-${installation}.${incarnation}.`
}

/**
 * Pids are given out in a circle (alloc_pid takes the next free one), so a number that was just read cannot be somebody
 * else's before all others were used up: at 20,000 forks a second that takes more than a second. A list that is older
 * than this is checked pid by pid, so that no stranger gets a signal (G10).
 */
const freshMs = 20

function isMember(pid: number, inside: string): boolean {
  try {
    const path = /^0::(.*)$/m.exec(readFileSync(`/proc/${pid}/cgroup`, 'utf8'))?.[1] ?? ''
    return path === inside || path.endsWith(inside) || path.includes(`${inside}/`)
  } catch {
    return false
  }
}
