import { accessSync, constants, existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { EbbError, errno, sentence } from '../../core/model/errors.ts'
import { chainTag, environmentTag, environmentTagName, isSafeId } from '../../core/model/identity.ts'
import { absent, type OnLoss, type Presence, type Proof, present, unknown } from '../../core/model/resource.ts'
import type { Child, Effects } from '../../core/ports/effects.ts'
import type { Host } from '../../core/ports/host.ts'
import type { Ctx, Found, Owner } from '../../core/ports/kind.ts'
import type { Limits, TreeMember, TreePlace, TreeSpec } from '../../core/ports/process.ts'
import { monotonicMs } from '../clock.ts'
import type { ProcessEntry, ProcessTable } from '../processes/process-table.ts'
import { type CgroupMount, findCgroup2, findRoots, isGone, isPopulated, members, removeCgroup, subdirectories } from './cgroup-files.ts'
import { killCgroup, trySignal } from './cgroup-kill.ts'
import { CgroupKnock } from './cgroup-knock.ts'
import { nextCheck, untilEmpty } from './cgroup-wait.ts'
import type { Containment, Tree, TreeStart } from './containment.ts'
import { applyLimits, limitPlaces, removeLostLimits } from './limits.ts'
import { signalEntry } from './scan.ts'
import { throughGates } from './trampoline.ts'

/**
 * The strongest containment: one cgroup v2 directory per tree, `ebb-INSTALLATION/INCARNATION/{end,keep}/RESOURCE`. It lies below the
 * supervisor's own cgroup, so that an Ebb inside an agent of another Ebb stays in that agent's tree. The kernel kills a cgroup at once and
 * proves that it is empty. The directories serve as a second ledger.
 */
export interface CgroupDeps {
  readonly effects: Effects
  readonly host: Host
  readonly processes: ProcessTable
  readonly inheritedTag: string | undefined
}

/**
 * Folders of trees that end with their supervisor, and of trees that outlive it. The sentinel writes only to the `cgroup.kill` of the
 * first.
 */
const end = 'end'
const keep = 'keep'
/** The cgroup of the tmux server, which belongs to no agent. */
const terminals = 'tmux'

/**
 * The number of checks, 1 ms apart, for a signalled main process that is outside its cgroup. The trampoline dies within milliseconds of its
 * signal. A process that stays outside longer has moved itself there.
 */
const gateChecks = 100

/**
 * The number of checks, 1 ms apart, for the end of the tmux server. It exits within milliseconds of its last session. A server that stays
 * longer has a session of another program.
 */
const terminalChecks = 200

/** The signals that were sent to a tree, and the processes that got the first of them. */
interface SentSignals {
  readonly signals: readonly NodeJS.Signals[]
  readonly pids: Set<number>
  /** Members of the tree that were forked too late to get the signals. Set by the first check afterwards. */
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
  readonly #sent = new Map<string, SentSignals>()
  readonly #knock: CgroupKnock
  /** `…/ebb-INSTALLATION` */
  readonly #root: string

  constructor(mount: CgroupMount, deps: CgroupDeps) {
    this.#deps = deps
    this.#mount = mount
    this.#root = join(mount.own, `ebb-${deps.host.installation}`)
    this.#knock = new CgroupKnock(deps.effects)
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
      throw new EbbError('containment_unavailable', 'This kernel has no cgroup.kill, which needs Linux 5.14; use --containment scan.')
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

  /**
   * Makes the directory of a tree and its parents. Another supervisor may remove the shared root while it is empty, between two of these
   * calls. Then all of them are made again.
   */
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

  /** The gate to the cgroup of the tmux server. It is outside all trees, so that the server outlives every supervisor. */
  terminalGate(): string {
    const directory = join(this.#root, terminals)
    for (const folder of [this.#root, directory]) if (!existsSync(folder)) this.#makeIfMissing(folder)
    return join(directory, 'cgroup.procs')
  }

  async signal(tree: Tree, signals: readonly NodeJS.Signals[]): Promise<void> {
    const inside = tree.place.slice(this.#mount.mountPoint.length)
    const atTheGate = this.#atTheGate(tree, inside)
    const pids = new Set<number>(atTheGate ? [atTheGate.pid] : [])
    this.#sent.set(tree.place, { signals, pids })
    // The list of members is read again for each signal: of a thousand processes that got the first one, most are gone before the second.
    for (const signal of signals) {
      // The process at the gate gets the signal first. Processes that it has forked by then are in the list that is read next.
      if (atTheGate) signalEntry(this.#deps, atTheGate, signal)
      const readMs = monotonicMs()
      for (const pid of members(tree.place)) {
        if (pid === atTheGate?.pid) continue
        if (monotonicMs() - readMs < freshMs || isMember(pid, inside)) trySignal(this.#deps.effects, pid, signal)
        if (signal === signals[0]) pids.add(pid)
      }
    }
  }

  /**
   * Sends the signals to processes that were forked while the others got theirs. While the parent of such a process lives, ending it is
   * left to the parent. When the parent has died of the signal, the process would run until the end of the grace period.
   */
  #signalLate({ place }: Tree): void {
    const sent = this.#sent.get(place)
    if (!sent) return
    const inside = members(place)
    sent.late ??= inside.filter((pid) => !sent.pids.has(pid))
    for (const pid of sent.late) {
      const entry = this.#deps.processes.find(pid)
      if (entry && inside.includes(entry.ppid)) continue
      sent.late = sent.late.filter((late) => late !== pid)
      if (entry && inside.includes(pid)) for (const signal of sent.signals) signalEntry(this.#deps, entry, signal)
    }
    if (sent.late.length === 0) this.#sent.delete(place)
  }

  /** The main process while it has not entered the cgroup yet. It is not in the cgroup's list, so it must be signalled separately. */
  #atTheGate({ main }: Tree, inside: string): ProcessEntry | undefined {
    const entry = main && !isMember(main.pid, inside) ? this.#deps.processes.find(main.pid) : undefined
    return entry && entry.startTime === main?.startTime ? entry : undefined
  }

  /** cgroup.kill skips a process whose main thread has ended. So a second kill also signals each process that is left. */
  async kill(tree: Tree): Promise<void> {
    this.#sent.delete(tree.place)
    killCgroup(tree.place, this.#deps.effects)
    if (this.#killedBefore.has(tree.place)) for (const pid of members(tree.place)) trySignal(this.#deps.effects, pid, 'SIGKILL')
    this.#killedBefore.add(tree.place)
  }

  async gone(tree: Tree, ctx: Ctx): Promise<Proof> {
    await this.#untilLeft(tree, ctx)
    this.#sent.delete(tree.place)
    removeCgroup(tree.place, this.#deps.effects)
    for (const place of tree.limitPlaces) removeCgroup(place, this.#deps.effects)
    this.#killedBefore.delete(tree.place)
    // The supervisor of an earlier incarnation no longer removes the folders above its trees, so this supervisor removes them.
    if (tree.mark.incarnation !== this.#deps.host.incarnationId) this.#removeFolders(dirname(dirname(tree.place)))
    return { method: 'cgroup empty and removed', strength: 'kernel', at: ctx.clock.wall() }
  }

  /**
   * Waits until the cgroup is empty, and for a main process that was signalled before it entered the cgroup. Without that wait, such a
   * process looks like one that has left its cgroup.
   */
  async #untilLeft(tree: Tree, ctx: Ctx): Promise<void> {
    const inside = tree.place.slice(this.#mount.mountPoint.length)
    const isSignalled = tree.main !== undefined && this.#sent.get(tree.place)?.pids.has(tree.main.pid) === true
    const empty = (): Promise<void> => untilEmpty(tree.place, ctx, () => this.#signalLate(tree))
    await empty()
    if (!isSignalled) return
    for (let checks = 0; checks < gateChecks && this.#atTheGate(tree, inside); checks++) {
      await nextCheck(ctx)
      await empty()
    }
  }

  /** Searches below our own cgroup for our own incarnation, and in the whole hierarchy for other incarnations. */
  async *list(owner: Owner): AsyncIterable<Found<TreeSpec>> {
    const isOwn = owner.incarnation === this.#deps.host.incarnationId
    const roots = isOwn ? [this.#root] : findRoots(this.#mount.mountPoint, basename(this.#root))
    for (const root of roots) {
      for (const incarnation of subdirectories(root).filter((name) => name !== terminals)) {
        if (owner.incarnation !== undefined && incarnation !== owner.incarnation) continue
        for (const place of this.#places(root, incarnation)) {
          const resourceId = basename(place)
          const spec: TreeSpec = {
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
    // Limits of our own trees were removed with the trees. Of other incarnations a record may be lost, and with it the limits of a tree.
    if (incarnation !== host.incarnationId) removeLostLimits(limitPrefix(host.installation, incarnation), effects)
    for (const root of findRoots(this.#mount.mountPoint, basename(this.#root))) {
      this.#removeFolders(join(root, incarnation))
      await this.#untilTerminalsLeft(root, ctx)
      this.#removeFolders(join(root, incarnation))
    }
  }

  /** When the cgroup of the tmux server is the last one, waits for that server to exit: no later supervisor would remove the cgroup. */
  async #untilTerminalsLeft(root: string, ctx: Ctx): Promise<void> {
    const directory = join(root, terminals)
    const isLast = (): boolean => subdirectories(root).every((name) => name === terminals) && isPopulated(directory) === true
    for (let checks = 0; checks < terminalChecks && isLast(); checks++) await nextCheck(ctx)
  }

  /** Removes the folders of an incarnation, and the root when none is left. Folders that are not empty are in use and stay. */
  #removeFolders(folder: string): void {
    const root = dirname(folder)
    const inner = [join(folder, end), join(folder, keep), join(root, terminals)].map((directory) => this.#remove(directory))
    if (inner[0] && inner[1] && this.#remove(folder) && inner[2]) this.#remove(root)
  }

  /**
   * Removes a folder. Returns true when it is gone. It may never have existed: a supervisor that died while it made its folders made only
   * the outer one.
   */
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

  /** The file that the sentinel writes to when this supervisor is dead. */
  get killSwitch(): string {
    return join(this.#root, this.#deps.host.incarnationId, end, 'cgroup.kill')
  }

  killAllNow(): void {
    try {
      this.#deps.effects.write(this.killSwitch, '1')
    } catch {
      // The kill switch is missing: no tree was ever started, or the folder is gone already.
    }
  }
}

/** The prefix of the names of v1 limit directories; the resource's id follows. */
function limitPrefix(installation: string, incarnation: string): string {
  return `ebb-${installation}.${incarnation}.`
}

/**
 * How long a list of pids counts as fresh. The kernel allocates pids in a circle (alloc_pid takes the next free one), so a pid is reused
 * only after all others. At 20,000 forks a second that takes more than a second. In an older list each pid is checked before its signal,
 * so that no foreign process gets one (G10).
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
