import { EbbError } from '../../core/model/errors.ts'
import { type Mark, parseEnvironmentTags, scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Presence, type Proof, present, unknown } from '../../core/model/resource.ts'
import type { LogHandle } from '../../core/ports/agent-log.ts'
import type { Child, Effects, Stdio } from '../../core/ports/effects.ts'
import type { Host } from '../../core/ports/host.ts'
import type { CreateCtx, Created, Ctx, Found, IntentOf, LabelledKind, Owner, StepEffect } from '../../core/ports/kind.ts'
import {
  type ContainmentName,
  processTreeKind,
  type TreeHandle,
  type TreeLaunch,
  type TreeMember,
  type TreeSpec,
} from '../../core/ports/process.ts'
import type { Containment, Tree } from '../../host/containment/containment.ts'
import { rlimitTagText } from '../../host/containment/rlimit-tag.ts'
import { type ScanContainment, signalEntry } from '../../host/containment/scan.ts'
import type { ProcessTable } from '../../host/processes/process-table.ts'

/** All processes of a run, held by one of the containments. A process that leaves the containment is found by its tags. */

export interface ProcessTreeDeps {
  readonly effects: Effects
  readonly host: Host
  readonly processes: ProcessTable
  readonly containments: ReadonlyMap<ContainmentName, Containment>
  /** The scan that is used besides every other containment: a root process can leave its cgroup, but keeps its tags. */
  readonly fallbackScan: ScanContainment
}

/** The standard input of a program. */
interface Input {
  readonly stream: Stdio
  /** The text that is still to be written to the pipe. */
  readonly rest?: string
  close(): void
}

export class ProcessTreeKind implements LabelledKind<typeof processTreeKind, Tree> {
  readonly kind = processTreeKind
  readonly label = { title: 'Process tree', endsProcesses: true } as const
  readonly #deps: ProcessTreeDeps
  /** The exits of the main processes that this supervisor started. */
  readonly #exits = new Map<string, Promise<void>>()
  /** The scopes of trees that outlive this supervisor. */
  readonly #kept = new Set<string>()
  /** Trees that a process has left. The containment alone cannot prove that such a tree is gone. */
  readonly #strayed = new Set<string>()
  /** The trees made by this supervisor, by rlimit tag. The tag is a hash, so the tree cannot be derived from it. */
  readonly #byRlimitTag = new Map<string, Mark>()

  constructor(deps: ProcessTreeDeps) {
    this.#deps = deps
  }

  name(intent: IntentOf<typeof processTreeKind>): Tree {
    const mark = { installation: intent.spec.installation, incarnation: intent.incarnation, resourceId: intent.id }
    const { place, limitPlaces = [] } = intent.spec
    return {
      mark,
      spec: intent.spec,
      main: intent.detail,
      place: place + intent.id,
      limitPlaces: limitPlaces.map((prefix) => prefix + intent.id),
    }
  }

  describe(tree: Tree): string {
    return `${tree.spec.program}${tree.main ? ` (pid ${tree.main.pid})` : ''} in ${tree.spec.containment} ${tree.mark.resourceId}`
  }

  steps(tree: Tree): readonly LadderStep[] {
    return tree.spec.politeSignal ? ['polite', 'terminate', 'kill'] : ['terminate', 'kill']
  }

  async create(tree: Tree, _spec: TreeSpec, ctx: CreateCtx<typeof processTreeKind>): Promise<Created<typeof processTreeKind>> {
    const { live: launch } = ctx
    if (tree.spec.isKept) this.#kept.add(scopeOfResource(tree.mark.resourceId))
    this.#byRlimitTag.set(rlimitTagText(tree.mark), tree.mark)
    const child = launch.terminal ? await this.#startInTerminal(tree, launch, launch.terminal, ctx) : await this.#start(tree, ctx)
    const startTime = this.#deps.processes.find(child.pid)?.startTime
    const signal = (sent: NodeJS.Signals): void => {
      const entry = this.#deps.processes.find(child.pid)
      if (entry && entry.startTime === startTime) signalEntry(this.#deps, entry, sent)
    }
    const handle: TreeHandle = { pid: child.pid, exit: child.exit, signal }
    const { resourceId } = tree.mark
    this.#exits.set(
      resourceId,
      child.exit.then(() => {}),
    )
    return { handle, ...(startTime !== undefined && { detail: { pid: child.pid, startTime } }) }
  }

  async #start(tree: Tree, { live, handles }: CreateCtx<typeof processTreeKind>): Promise<Child> {
    const streams = live.streams.map((stream) => (typeof stream === 'object' ? descriptorOf(handles.get(stream.log)) : stream))
    const input = this.#open(live.stdin)
    const child = await this.#containment(tree)
      .start(tree, { ...live, stdio: [input.stream, ...streams] })
      .finally(() => input.close())
    child.stdin?.end(input.rest)
    return child
  }

  /**
   * Starts the command through the terminal, as a child of the terminal's server. The server may have moved the command, so its cgroup is
   * checked.
   */
  async #startInTerminal(
    tree: Tree,
    launch: TreeLaunch,
    place: NonNullable<TreeLaunch['terminal']>,
    { handles }: CreateCtx,
  ): Promise<Child> {
    const terminal = handles.get(place.label)
    const streams = { stdin: place.stdin, stdout: handles.get(place.stdout), stderr: handles.get(place.stderr) }
    const containment = this.#containment(tree)
    const isAlive = (pid: number): boolean => this.#deps.processes.find(pid) !== undefined
    const child = await containment.start(tree, {
      ...launch,
      argv: terminal.announced(launch.argv),
      stdio: [],
      spawn: (command) => terminal.start(command, streams),
    })
    if (!containment.holds(tree, child.pid) && isAlive(child.pid))
      throw new EbbError(
        'launch_failed',
        `The command runs in its terminal, but not inside its ${containment.name} containment; another program moved it out.`,
      )
    return child
  }

  /**
   * Opens an unnamed file (O_TMPFILE) with the text. A program may open `/dev/stdin`, and for Node's pipes, which are sockets, that fails
   * with ENXIO. On a file system without unnamed files a pipe is used.
   */
  #open(stdin: TreeLaunch['stdin']): Input {
    if (typeof stdin !== 'object') return { stream: stdin, close: () => {} }
    const { effects } = this.#deps
    try {
      const fd = effects.openText(stdin.directory, stdin.text)
      return { stream: fd, close: () => effects.closeFile(fd) }
    } catch {
      return { stream: 'pipe', rest: stdin.text, close: () => {} }
    }
  }

  async observe(tree: Tree, ctx: Ctx): Promise<Presence> {
    if (!this.#deps.host.isThisBoot(tree.mark.incarnation)) {
      return absent({ method: 'the machine has restarted since then', strength: 'kernel', at: ctx.clock.wall() })
    }
    const containment = this.#deps.containments.get(tree.spec.containment)
    if (!containment) return unknown(`the ${tree.spec.containment} containment is not available to this process`)
    const held = await containment.observe(tree, ctx)
    if (held.is !== 'absent' || containment === this.#deps.fallbackScan) return held
    const { resourceId } = tree.mark
    if (await this.#deps.fallbackScan.hasStrays(tree)) {
      this.#strayed.add(resourceId)
      return present('processes that left their containment')
    }
    if (!this.#strayed.delete(resourceId)) return held
    const method = `${held.proof.method}; a scan found none of the processes that had left it`
    return absent({ ...held.proof, method, strength: 'scan' })
  }

  async release(tree: Tree, step: LadderStep, ctx: Ctx): Promise<StepEffect> {
    const containment = this.#containment(tree)
    if (step === 'polite') return this.#signalMain(tree)
    if (step === 'terminate') {
      // SIGCONT follows SIGTERM, because SIGTERM stays pending on a stopped process until it is continued.
      await containment.signal(tree, ['SIGTERM', 'SIGCONT'])
      return {}
    }
    await containment.kill(tree)
    if (containment !== this.#deps.fallbackScan && (await containment.observe(tree, ctx)).is === 'absent')
      await this.#deps.fallbackScan.kill(withoutGate(tree))
    return {}
  }

  /** The polite signal goes to the main process alone. When that has ended, the polite step is exhausted. */
  #signalMain(tree: Tree): StepEffect {
    const exit = this.#exits.get(tree.mark.resourceId)
    const main = tree.main && this.#deps.processes.find(tree.main.pid)
    if (!tree.spec.politeSignal || !main || main.startTime !== tree.main?.startTime) return { exhausted: Promise.resolve() }
    signalEntry(this.#deps, main, tree.spec.politeSignal)
    return exit ? { exhausted: exit } : {}
  }

  async gone(tree: Tree, ctx: Ctx): Promise<Proof> {
    const proof = await this.#containment(tree).gone(tree, ctx)
    this.#exits.delete(tree.mark.resourceId)
    this.#kept.delete(scopeOfResource(tree.mark.resourceId))
    this.#byRlimitTag.delete(rlimitTagText(tree.mark))
    return proof
  }

  async *list(owner: Owner): AsyncIterable<Found<TreeSpec>> {
    const isWanted = ({ resourceId }: Found): boolean =>
      owner.scopeIds === undefined || owner.scopeIds.has(resourceId.slice(0, resourceId.lastIndexOf('.')))
    const seen = new Set<string>()
    for (const containment of this.#deps.containments.values()) {
      for await (const found of containment.list(owner)) {
        if (!isWanted(found)) continue
        seen.add(found.resourceId)
        yield found
      }
    }
    // The release of single scopes has searched for each of their trees by tag already. For a whole incarnation that search is done here.
    if (owner.scopeIds !== undefined) return
    for await (const found of this.#deps.fallbackScan.strays(owner)) if (!seen.has(found.resourceId)) yield found
  }

  async tidy(incarnation: string, ctx: Ctx): Promise<void> {
    for (const containment of this.#deps.containments.values()) await containment.tidy(incarnation, ctx)
  }

  /** The living processes that carry this installation's tags or are inside one of its containments. */
  async running(): Promise<readonly TreeMember[]> {
    const { installation } = this.#deps.host
    const found = new Map<number, TreeMember>()
    for (const containment of this.#deps.containments.values()) for (const member of containment.members()) found.set(member.pid, member)
    for (const { pid, environmentTags, rlimitTag = '' } of await this.#deps.processes.marked()) {
      const mark =
        parseEnvironmentTags(environmentTags).find((candidate) => candidate.installation === installation) ??
        this.#byRlimitTag.get(rlimitTag)
      if (mark && !found.has(pid)) found.set(pid, { pid, resourceId: mark.resourceId, incarnation: mark.incarnation })
    }
    found.delete(process.pid)
    return [...found.values()]
  }

  /** Kills everything of this incarnation that does not outlive it. Synchronous, for exit handlers. */
  killAllNow(alsoKept: readonly string[]): void {
    const kept = new Set([...this.#kept, ...alsoKept])
    for (const containment of this.#deps.containments.values()) containment.killAllNow(kept)
  }

  #containment(tree: Tree): Containment {
    const containment = this.#deps.containments.get(tree.spec.containment)
    if (!containment) throw new Error(`The ${tree.spec.containment} containment is not available to this process.`)
    return containment
  }
}

function descriptorOf({ path, fd }: LogHandle): Stdio {
  if (fd === undefined) throw new Error(`The log ${path} has no pipe for the command; its collector runs in a terminal.`)
  return fd
}

/** The tree for the fallback scan, which must find only processes: the gate belongs to the containment that made it. */
function withoutGate(tree: Tree): Tree {
  return { ...tree, place: '/nonexistent' }
}
