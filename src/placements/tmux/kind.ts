import { constants, existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { EbbError, errno } from '../../core/model/errors.ts'
import { chainTag, environmentTag, isSafeId, type Mark, parseEnvironmentTags, scopeOfResource } from '../../core/model/identity.ts'
import type { LadderStep } from '../../core/model/ladder.ts'
import { absent, type Presence, type Proof, present } from '../../core/model/resource.ts'
import type { LogHandle } from '../../core/ports/agent-log.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Child, Command, Effects, Exit } from '../../core/ports/effects.ts'
import type { Label } from '../../core/ports/handles.ts'
import type { Host } from '../../core/ports/host.ts'
import {
  type CreateCtx,
  type Created,
  type Ctx,
  type Found,
  type IntentOf,
  kindName,
  type Owner,
  type ResourceKind,
  type StepEffect,
} from '../../core/ports/kind.ts'
import { type SessionHandle, sessionLabel } from '../../core/ports/process.ts'
import { signalEntry } from '../../host/containment/scan.ts'
import type { ProcessTable } from '../../host/processes/process-table.ts'
import { PaneListener, readExit } from './events.ts'
import { lastLine } from './pane-output.ts'
import { announced, ordersFor, waitForOrders, withLength } from './script.ts'
import type { Session, Tmux } from './tmux.ts'

/**
 * A session on Ebb's own tmux server. In its one pane a shell of Ebb waits for its orders, starts the agent, and reports events. The agent
 * is a process tree of its own; the session is its terminal, which a person may attach to. Killing a session only hangs up its terminal, so
 * processes in the pane are also ended by their mark.
 */

export interface SessionSpec {
  readonly installation: string
  readonly socket: string
  /** The folder with the pipes of the session and its exit code. */
  readonly directory: string
  /** The session's name, for display. */
  readonly session: string
}

/** What the ledger records at the creation: the process of the shell in the pane. */
export interface SessionDetail {
  readonly pid: number
  readonly startTime: string
}

export const tmuxSessionKind = kindName<{ spec: SessionSpec; detail: SessionDetail; handle: SessionHandle }>('tmux-session')

export interface SessionRef extends SessionSpec {
  readonly mark: Mark
  readonly pane: SessionDetail | undefined
  /** Named pipes: the orders to the pane, and the events from it. */
  readonly orders: string
  readonly events: string
  readonly exit: string
}

export interface TmuxKindDeps {
  readonly effects: Effects
  readonly host: Host
  readonly clock: Clock
  readonly processes: ProcessTable
  readonly tmux: Tmux
  readonly directory: string
  readonly socket: string
  readonly inheritedTag: string | undefined
  /** Wraps a command so that it first enters the cgroup of the tmux server, when there is one. */
  readonly throughGate: (argv: readonly string[]) => { readonly program: string; readonly argv: readonly string[] }
}

const separator = '~'
const suffixes = ['.orders', '.events', '.exit', '.exit.new']

/** The time for a new pane to become ready, and for its command to start. The shell of a pane starts within milliseconds. */
const paneBudgetMs = 5_000

/**
 * An agent that ends within `startWindowMs` of its orders has failed to start, so the launch waits for that time. It also waits at least
 * `leastStartMs` after the agent has entered its cgroup, because entering can take 20 ms.
 */
const startWindowMs = 30
const leastStartMs = 12

/**
 * A program that fails to start has used less processor time than `startProcessorMs`. On a busy machine the launch waits until the agent
 * has used that much, but not longer than `busyStartMs`.
 */
const startProcessorMs = 5
const busyStartMs = 1_000

/** The wait after the hangup of a pane. Processes in the pane end within milliseconds after it, or not by themselves. */
const hangupMs = 100

/** How long the collectors may take to write the last output of an agent. */
const lastOutputMs = 1_000

export class TmuxSessionKind implements ResourceKind<typeof tmuxSessionKind, SessionRef> {
  readonly kind = tmuxSessionKind
  readonly attends = true
  readonly isTerminal = true
  readonly #deps: TmuxKindDeps
  readonly #listeners = new Map<string, PaneListener>()

  constructor(deps: TmuxKindDeps) {
    this.#deps = deps
  }

  planLabel(): Label<SessionHandle> {
    return sessionLabel
  }

  name(intent: IntentOf<typeof tmuxSessionKind>): SessionRef {
    const mark = { installation: intent.spec.installation, incarnation: intent.incarnation, resourceId: intent.id }
    const file = join(intent.spec.directory, `${intent.incarnation}${separator}${intent.id}`)
    return { ...intent.spec, mark, pane: intent.detail, orders: `${file}.orders`, events: `${file}.events`, exit: `${file}.exit` }
  }

  describe({ session, socket }: SessionRef): string {
    return `${session} on ${socket}`
  }

  steps(): readonly LadderStep[] {
    return ['kill']
  }

  async create(ref: SessionRef, _spec: SessionSpec, { clock }: CreateCtx): Promise<Created<typeof tmuxSessionKind>> {
    const { effects, tmux, processes, inheritedTag, throughGate } = this.#deps
    for (const pipe of [ref.orders, ref.events]) await effects.makePipe(pipe)
    const listener = this.#listen(ref)
    listener.await()
    const { panePid } = await tmux.open({
      name: ref.session,
      mark: environmentTag(ref.mark),
      pane: {
        argv: ['/bin/sh', '-c', waitForOrders, 'ebb-pane', ref.orders, ref.events],
        environmentTag: chainTag(inheritedTag, environmentTag(ref.mark)),
      },
      throughGate,
    })
    await within(clock, paneBudgetMs, listener.ready, `The pane of ${ref.session} did not start.`)
    const startTime = processes.find(panePid)?.startTime
    return {
      handle: this.#handle(ref, listener),
      ...(startTime !== undefined && { detail: { pid: panePid, startTime } }),
    }
  }

  async resume(ref: SessionRef): Promise<SessionHandle> {
    const listener = this.#listen(ref)
    listener.follow()
    // A pipe whose last writer closed it before it was opened here never reports its end (fifo(7)). So `ended` is checked after the pipe is
    // opened, and a pane that ends in between is seen as well.
    if (await this.ended(ref)) listener.finish()
    return this.#handle(ref, listener)
  }

  async ended(ref: SessionRef): Promise<Exit | undefined> {
    if (!this.#deps.host.isThisBoot(ref.mark.incarnation)) return { code: null, signal: null }
    const exit = readExit(ref.exit)
    return exit ?? ((await this.#isPaneAlive(ref)) ? undefined : { code: null, signal: null })
  }

  #listen(ref: SessionRef): PaneListener {
    const listener = new PaneListener(this.#deps.effects, ref.events, ref.exit)
    this.#listeners.set(ref.mark.resourceId, listener)
    return listener
  }

  #handle(ref: SessionRef, listener: PaneListener): SessionHandle {
    let logs: readonly string[] = []
    return {
      announced,
      start: async (command, streams) => {
        logs = [streams.stdout.path, streams.stderr.path]
        const orderedMs = this.#deps.clock.now()
        const child = await this.#start(ref, listener, command, streams)
        const leftMs = Math.max(leastStartMs, orderedMs + startWindowMs - this.#deps.clock.now())
        await this.#requireGoodStart(listener, logs, leftMs)
        return child
      },
      requireGoodStart: () => this.#requireGoodStart(listener, logs, 0),
      exit: listener.exit,
      lost: listener.lost,
    }
  }

  async #start(
    ref: SessionRef,
    listener: PaneListener,
    command: Command,
    streams: { readonly stdin: string; readonly stdout: LogHandle; readonly stderr: LogHandle },
  ): Promise<Child> {
    const { effects, clock } = this.#deps
    this.#order(ref, withLength(ordersFor({ command, ...streams, exit: ref.exit })))
    const pid = await within(clock, paneBudgetMs, listener.pid, `The command did not start in ${ref.session}.`)
    const [one, two] = await listener.collectors
    streams.stdout.collectedBy?.(one)
    streams.stderr.collectedBy?.(two)
    effects.unlink(ref.orders)
    return { pid, exit: listener.exit, stdin: undefined, firstLine: async () => undefined, unref: () => {} }
  }

  /** The pane has the pipe open for reading and writing, so the orders are not lost, and neither side blocks. */
  #order(ref: SessionRef, text: string): void {
    const fd = this.#deps.effects.openFile(ref.orders, constants.O_WRONLY | constants.O_NONBLOCK)
    const socket = new Socket({ fd, readable: false, writable: true })
    // When the shell does not read its orders, the end of the pane or the deadline reports it.
    socket.on('error', () => {})
    socket.end(text)
    socket.unref()
  }

  /** Throws when the agent has ended with an error, or without output. An agent that ended with output was only fast. */
  async #requireGoodStart(listener: PaneListener, logs: readonly string[], windowMs: number): Promise<void> {
    const { clock } = this.#deps
    let exit = await Promise.race([listener.exit, delay(clock, windowMs)])
    // On a busy machine the agent may have had no processor time yet. In that case the launch waits longer.
    const untilMs = clock.now() + (windowMs > 0 ? busyStartMs : 0)
    while (!exit && clock.now() < untilMs && this.#isStillBeginning(await listener.pid))
      exit = await Promise.race([listener.exit, delay(clock, leastStartMs)])
    if (!exit) return
    // The collectors write the last output after the agent has ended.
    await Promise.race([listener.over, delay(clock, lastOutputMs)])
    const hasOutput = logs.some((log) => (statSync(log, { throwIfNoEntry: false })?.size ?? 0) > 0)
    if (exit.code === 0 && hasOutput) return
    const how = exit.code === 0 ? 'without one line of output' : `with exit code ${exit.code ?? 'unknown'}`
    const said = await lastLine(logs.toReversed())
    const why = said === undefined ? 'start its command by hand to see why.' : `its last line was: ${said}`
    throw new EbbError('launch_failed', `The agent's session ended at once, ${how}; ${why}`)
  }

  /**
   * True when the agent waits for a processor and has used little processor time. Also true when the agent has ended and the pane has not
   * reported the end yet.
   */
  #isStillBeginning(pid: number): boolean {
    const entry = this.#deps.processes.find(pid)
    if (!entry) return true
    return (entry.state === 'R' || entry.state === 'D') && processorMs(pid) < startProcessorMs
  }

  async observe(ref: SessionRef, ctx: Ctx): Promise<Presence> {
    const left = [ref.orders, ref.events, ref.exit].find((file) => existsSync(file))
    if (left !== undefined) return present(left)
    if (!this.#deps.host.isThisBoot(ref.mark.incarnation))
      return absent({ method: 'the machine has restarted since', strength: 'kernel', at: ctx.clock.wall() })
    const [session] = await this.#find(ref.mark)
    if (session) return present(`session ${session.id}`)
    if (await this.#isPaneAlive(ref)) return present('its pane')
    this.#forget(ref)
    return absent({ method: 'no such session, and its pane has ended', strength: 'api', at: ctx.clock.wall() })
  }

  async release(ref: SessionRef): Promise<StepEffect> {
    const { effects, tmux } = this.#deps
    for (const { id } of await this.#find(ref.mark)) await tmux.kill(id)
    const listener = this.#listeners.get(ref.mark.resourceId)
    if (listener) await Promise.race([listener.over, delay(this.#deps.clock, hangupMs)])
    if (!listener?.isOver) await this.#endPane(ref)
    for (const file of [ref.orders, ref.events, ref.exit, `${ref.exit}.new`]) {
      try {
        effects.unlink(file)
      } catch (error) {
        if (errno(error) !== 'ENOENT') throw error
      }
    }
    return {}
  }

  /**
   * Kills only processes with exactly the mark of the session. The collectors in the same pane carry the marks of their logs, and are still
   * writing.
   */
  async #endPane(ref: SessionRef): Promise<void> {
    const { processes } = this.#deps
    for (const { pid, environmentTags } of await processes.marked()) {
      const isOurs = parseEnvironmentTags(environmentTags).some((one) => isSameMark(one, ref.mark))
      const entry = isOurs ? processes.find(pid) : undefined
      if (entry) signalEntry(this.#deps, entry, 'SIGKILL')
    }
  }

  async gone(ref: SessionRef, ctx: Ctx): Promise<Proof> {
    await this.#listeners.get(ref.mark.resourceId)?.over
    const seen = await this.observe(ref, ctx)
    if (seen.is !== 'absent') throw new Error(`the session ${ref.session} still exists`)
    return seen.proof
  }

  async *list(owner: Owner): AsyncIterable<Found<SessionSpec>> {
    const found = new Map<string, Mark>()
    for (const file of existsSync(this.#deps.directory) ? readdirSync(this.#deps.directory) : []) {
      const suffix = suffixes.find((one) => file.endsWith(one))
      const [incarnation = '', resourceId = ''] = suffix ? file.slice(0, -suffix.length).split(separator) : []
      if (isSafeId(resourceId)) found.set(resourceId, { installation: this.#deps.host.installation, incarnation, resourceId })
    }
    // Without the socket there was never a server, so there are no sessions.
    if (existsSync(this.#deps.socket))
      for (const { mark } of await this.#sessions()) if (isSafeId(mark.resourceId)) found.set(mark.resourceId, mark)
    for (const { installation, incarnation, resourceId } of found.values()) {
      if (installation !== owner.installation || (owner.incarnation !== undefined && owner.incarnation !== incarnation)) continue
      if (owner.scopeIds && !owner.scopeIds.has(scopeOfResource(resourceId))) continue
      const { socket, directory } = this.#deps
      yield { resourceId, incarnation, name: `session of ${resourceId}`, spec: { installation, socket, directory, session: 'unknown' } }
    }
  }

  async #find(mark: Mark): Promise<readonly Session[]> {
    return (await this.#sessions()).filter((session) => isSameMark(session.mark, mark))
  }

  async #sessions(): Promise<readonly Session[]> {
    const listing = await this.#deps.tmux.sessions()
    return listing === 'none' ? [] : listing
  }

  /**
   * True when the shell of the pane, or a process with its mark, lives. All processes of the pane except the collectors hold the events
   * pipe open, so its end proves that they are gone.
   */
  async #isPaneAlive({ mark, pane }: SessionRef): Promise<boolean> {
    const { processes } = this.#deps
    if (pane && processes.find(pane.pid)?.startTime === pane.startTime) return true
    if (this.#listeners.get(mark.resourceId)?.isOver) return false
    return (await processes.marked()).some(({ environmentTags }) =>
      parseEnvironmentTags(environmentTags).some((one) => isSameMark(one, mark)),
    )
  }

  #forget(ref: SessionRef): void {
    this.#listeners.get(ref.mark.resourceId)?.close()
    this.#listeners.delete(ref.mark.resourceId)
  }
}

/** The processor time that a process has used, in milliseconds, from schedstat (proc(5)). Infinite when it cannot be read. */
function processorMs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ')[0]) / 1e6
  } catch {
    return Number.POSITIVE_INFINITY
  }
}

function isSameMark(a: Mark, b: Mark): boolean {
  return a.resourceId === b.resourceId && a.installation === b.installation
}

async function within<T>(clock: Clock, budgetMs: number, event: Promise<T>, problem: string): Promise<T> {
  const late = new AbortController()
  const deadline = new Promise<never>((_, reject) => clock.after(budgetMs, late.signal, () => reject(new Error(problem))))
  try {
    return await Promise.race([event, deadline])
  } finally {
    late.abort()
  }
}

function delay(clock: Clock, ms: number): Promise<undefined> {
  return new Promise((resolve) => clock.after(ms, new AbortController().signal, () => resolve(undefined)))
}
