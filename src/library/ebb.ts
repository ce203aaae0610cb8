import type { Control } from '../control.ts'
import type { Status } from '../core/engine/api.ts'
import { noop } from '../core/engine/race.ts'
import { EbbError } from '../core/model/errors.ts'
import { ownerName } from '../core/model/names.ts'
import type { Report } from '../core/model/report.ts'
import type { Supervisor } from '../supervisor.ts'
import { type Agent, type LaunchOptions, launch, namespace, type Place, requireReleased } from './agent.ts'

export interface RequestOptions {
  /** Closes the request with everything in it after this time. */
  readonly timeoutMs?: number
  /** Closes the request when the signal aborts. */
  readonly signal?: AbortSignal
}

export interface CleanupOptions {
  readonly scope: 'single' | 'all'
  readonly requestId?: string
  readonly agentId?: string
  readonly force?: boolean
}

/** Ebb in your own process, with the control plane and the guarantees of the server. Leaving its `await using` block closes everything. */
export class Ebb implements AsyncDisposable {
  readonly #supervisor: Supervisor
  readonly #control: Control
  readonly #lifetime = new AbortController()
  /** Requests that are open, or not yet closed successfully. */
  readonly #requests = new Map<string, { readonly request: Request; readonly closed: AbortController }>()
  /** The ids of the latest closed requests, which cannot be used again. */
  readonly #closedIds = new Set<string>()
  #closing: Promise<void> | undefined

  constructor(supervisor: Supervisor, control: Control) {
    this.#supervisor = supervisor
    this.#control = control
    leaveCleanly(supervisor, this.#lifetime.signal, () => this[Symbol.asyncDispose]())
    control.startReaper()
  }

  /** Opens a request: a scope that owns what is launched in it. A closed request cannot be opened again. Ids are local to this process. */
  request(id: string, options: RequestOptions = {}): Request {
    if (!ownerName.pattern.test(id)) throw new EbbError('bad_usage', `"${id}" cannot be a request id; use ${ownerName.says}.`)
    const { timeoutMs = 1 } = options
    if (!(timeoutMs >= 1 && timeoutMs <= longestMs))
      throw new EbbError('bad_usage', `timeoutMs must be a number of milliseconds from 1 to ${longestMs}, not ${timeoutMs}.`)
    const known = this.#requests.get(id)
    if (known && !known.closed.signal.aborted)
      throw new EbbError('request_exists', `Request ${id} is open already in this process; use it, or another id.`)
    if (known || this.#closedIds.has(id)) throw new EbbError('scope_closed', `Request ${id} of this process is closed; use another id.`)
    const { engine, namespaces, newId } = this.#control
    const scope = engine.openScope({
      id: `request-${newId()}`,
      kind: 'request',
      parentId: namespaces.enter(namespace),
      label: id,
    })
    const owner = { requestId: id, ownerScopeId: scope.id }
    const place = { control: this.#control, until: this.#lifetime.signal, owner }
    const closed = new AbortController()
    const request = new Request(place, options, closed, () => this.#forget(request))
    this.#requests.set(id, { request, closed })
    return request
  }

  /** Drops a closed request and keeps only its id, so that memory stays bounded over months. */
  #forget(request: Request): void {
    const { id } = request
    // After a reset, a new request may have the id of an old one that is still closing.
    if (this.#requests.get(id)?.request !== request) return
    this.#requests.delete(id)
    this.#closedIds.add(id)
    const [oldest] = this.#closedIds
    if (oldest !== undefined && this.#closedIds.size > rememberedAtMost) this.#closedIds.delete(oldest)
  }

  launch(options: LaunchOptions): Promise<Agent> {
    return launch({ control: this.#control, until: this.#lifetime.signal }, options)
  }

  /** Closes one request, one agent, or everything of this process. Rows and archives are kept. */
  async cleanup(options: CleanupOptions): Promise<Report> {
    const force = options.force ?? false
    if (options.scope === 'all' && (options.requestId ?? options.agentId) !== undefined)
      throw new EbbError('bad_usage', 'A cleanup of scope "all" closes everything; leave out requestId and agentId, or use scope "single".')
    if (options.scope === 'all') return await this.#control.cleanup.closeNamespace(undefined, 'request-finished', force)
    if (options.requestId !== undefined) {
      const { requestId: id } = options
      const known = this.#requests.get(id)
      // Closing a closed request succeeds again (G5).
      if (this.#closedIds.has(id))
        return await this.#control.engine.close(`request-${id}`, { trigger: 'request-finished' }, { name: { kind: 'request', id } })
      if (!known) throw new EbbError('request_not_found', `There is no request ${options.requestId} in this process.`)
      return await known.request.close({ force })
    }
    if (options.agentId === undefined) throw new EbbError('bad_usage', 'A cleanup of scope "single" needs a requestId or an agentId.')
    return await this.#control.agents.stop(options.agentId, force ? { force } : {})
  }

  status(): Promise<Status> {
    return this.#control.cleanup.status(undefined)
  }

  /** Removes everything of this process and of ended processes, including logs, archives and rows, and verifies it. Afterwards launches work again. */
  async reset(options: { readonly force?: boolean; readonly timeoutMs?: number } = {}): Promise<Report> {
    // Only requests that exist now are dropped after the reset. New ones may be opened before the report arrives, and must stay.
    const old = [...this.#requests]
    const ids = [...this.#closedIds, ...old.map(([id]) => id)]
    const report = await this.#control.cleanup.reset(options).report
    for (const [id, known] of old) {
      known.closed.abort()
      if (this.#requests.get(id) === known) this.#requests.delete(id)
    }
    for (const id of ids) this.#closedIds.delete(id)
    return report
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const report = await this.#supervisor.engine.shutDown()
    this.#lifetime.abort()
    this.#control.waiting.wakeAll()
    await this.#control.close()
    await this.#supervisor.close()
    requireReleased(report)
  }
}

const rememberedAtMost = 10_000

/** The longest delay of setTimeout; a longer one would fire at once. */
const longestMs = 2_147_483_647

/** A scope that closes everything launched in it: by `close`, its timeout, its signal, or leaving its `await using` block. */
export class Request implements AsyncDisposable {
  readonly id: string
  readonly #place: Place
  readonly #scopeId: string
  /** Aborted once the close has begun: the request accepts no agents, and its timeout and signal are ignored. */
  readonly #closed: AbortController
  readonly #onClean: () => void
  /** The report of the running or successful close. */
  #report: Promise<Report> | undefined

  constructor(
    place: Place & { readonly owner: { readonly requestId: string; readonly ownerScopeId: string } },
    options: RequestOptions,
    closed: AbortController,
    onClean: () => void,
  ) {
    this.#closed = closed
    this.#onClean = onClean
    this.id = place.owner.requestId
    this.#place = place
    this.#scopeId = place.owner.ownerScopeId
    // The error is ignored: the next `close` tries again and returns the failure to its caller.
    const end = (): void => void this.close().catch(noop)
    if (options.timeoutMs !== undefined) place.control.clock.after(options.timeoutMs, this.#closed.signal, end)
    if (options.signal?.aborted) end()
    else options.signal?.addEventListener('abort', end, { once: true, signal: this.#closed.signal })
  }

  launch(options: LaunchOptions): Promise<Agent> {
    if (this.#closed.signal.aborted)
      return Promise.reject(new EbbError('scope_closed', `Request ${this.id} is closed and accepts no agents; open another.`))
    return launch(this.#place, options)
  }

  /** Ends everything in the request, with proof. After a success it returns that report; after a failure the next call tries again. */
  close(options: { readonly force?: boolean } = {}): Promise<Report> {
    const { engine } = this.#place.control
    this.#closed.abort()
    const closeRequest = { trigger: 'request-finished', ...(options.force && { force: true }) } as const
    // The error is ignored: this call only forces the running close, whose report is returned below.
    if (this.#report && options.force) engine.close(this.#scopeId, closeRequest).catch(noop)
    this.#report ??= this.#remember(engine.close(this.#scopeId, closeRequest))
    return this.#report
  }

  #remember(report: Promise<Report>): Promise<Report> {
    const forget = (): void => {
      this.#report = undefined
    }
    report.then(({ success }) => (success ? this.#onClean() : forget()), forget)
    return report
  }

  async [Symbol.asyncDispose](): Promise<void> {
    requireReleased(await this.close())
  }
}

const leaveSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** The signal listeners of all Ebb instances in this process. They do not count as listeners of the host program. */
const ours = new WeakSet<object>()

/**
 * Closes everything when the host program ends. On a signal it closes everything, with proof; then the last Ebb instance sends
 * the signal again, so that the program dies of it as it would without Ebb. If the program has a listener of its own, that
 * listener decides instead. On any other exit, one synchronous write kills every process, and the sentinel completes the ledger.
 */
function leaveCleanly(supervisor: Supervisor, until: AbortSignal, close: () => Promise<void>): void {
  const onExit = (): void => supervisor.killAllNow()
  process.on('exit', onExit)
  until.addEventListener('abort', () => process.off('exit', onExit), { once: true })
  for (const signal of leaveSignals) {
    const onSignal = (): void => {
      const isOursToResend = process.listeners(signal).every((listener) => ours.has(listener))
      close()
        .catch((error: unknown) =>
          supervisor.log.error('Cleanup: not everything could be released before the program ended.', { error: String(error) }),
        )
        .finally(() => {
          process.off(signal, onSignal)
          if (isOursToResend && process.listenerCount(signal) === 0) process.kill(process.pid, signal)
        })
    }
    ours.add(onSignal)
    process.on(signal, onSignal)
    until.addEventListener('abort', () => process.off(signal, onSignal), { once: true })
  }
}
