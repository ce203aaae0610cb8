import type { Control } from '../control.ts'
import type { Status } from '../core/engine/api.ts'
import { noop } from '../core/engine/race.ts'
import { EbbError } from '../core/model/errors.ts'
import { ownerName } from '../core/model/names.ts'
import type { Report } from '../core/model/report.ts'
import type { Supervisor } from '../supervisor.ts'
import { type Agent, type LaunchOptions, launch, namespace, type Place, requireReleased } from './agent.ts'
import { leaveCleanly } from './leave.ts'

export interface RequestOptions {
  /** The request is closed, with everything in it, after this time. */
  readonly timeoutMs?: number
  /** The request is closed when it aborts. */
  readonly signal?: AbortSignal
}

export interface CleanupOptions {
  readonly scope: 'single' | 'all'
  readonly requestId?: string
  readonly agentId?: string
  readonly force?: boolean
}

/** Ebb in your own process: the same control plane, the same guarantees, and blocks that close what they opened. */
export class Ebb implements AsyncDisposable {
  readonly #supervisor: Supervisor
  readonly #control: Control
  readonly #lifetime = new AbortController()
  /** Those that are open, or not clean yet. */
  readonly #requests = new Map<string, { readonly request: Request; readonly over: AbortController }>()
  /** The latest of those that are over: their ids are not given again. */
  readonly #over = new Set<string>()
  #closing: Promise<void> | undefined

  constructor(supervisor: Supervisor, control: Control) {
    this.#supervisor = supervisor
    this.#control = control
    leaveCleanly(supervisor, this.#lifetime.signal, () => this[Symbol.asyncDispose]())
    control.startReaper()
  }

  /** A request owns what is launched in it, and closes for good; its id is this process's own. */
  request(id: string, options: RequestOptions = {}): Request {
    if (!ownerName.pattern.test(id)) throw new EbbError('bad_usage', `"${id}" cannot be a request id; use ${ownerName.says}.`)
    const { timeoutMs = 1 } = options
    if (!(timeoutMs >= 1 && timeoutMs <= longestMs))
      throw new EbbError('bad_usage', `timeoutMs must be a number of milliseconds from 1 to ${longestMs}, not ${timeoutMs}.`)
    const known = this.#requests.get(id)
    if (known && !known.over.signal.aborted)
      throw new EbbError('request_exists', `Request ${id} is open already in this process; use it, or another id.`)
    if (known || this.#over.has(id)) throw new EbbError('scope_closed', `Request ${id} of this process is closed; use another id.`)
    const { engine, namespaces, newId } = this.#control
    const scope = engine.openScope({
      id: `request-${newId()}`,
      kind: 'request',
      parentId: namespaces.enter(namespace),
      label: id,
    })
    const owner = { requestId: id, ownerScopeId: scope.id }
    const place = { control: this.#control, until: this.#lifetime.signal, owner }
    const over = new AbortController()
    const request = new Request(place, options, over, () => this.#forget(request))
    this.#requests.set(id, { request, over })
    return request
  }

  /** A process that serves requests for months remembers none of them but some ids. */
  #forget(request: Request): void {
    const { id } = request
    // One that a reset has forgotten may still be closed, and another may have its id by then.
    if (this.#requests.get(id)?.request !== request) return
    this.#requests.delete(id)
    this.#over.add(id)
    const [oldest] = this.#over
    if (oldest !== undefined && this.#over.size > rememberedAtMost) this.#over.delete(oldest)
  }

  launch(options: LaunchOptions): Promise<Agent> {
    return launch({ control: this.#control, until: this.#lifetime.signal }, options)
  }

  /** The unified cleanup: one request or agent, or everything of this process. Rows and archives are kept. */
  async cleanup(options: CleanupOptions): Promise<Report> {
    const force = options.force ?? false
    if (options.scope === 'all' && (options.requestId ?? options.agentId) !== undefined)
      throw new EbbError('bad_usage', 'A cleanup of scope "all" is of everything; leave requestId and agentId out, or use scope "single".')
    if (options.scope === 'all') return await this.#control.cleanup.closeNamespace(undefined, 'request-finished', force)
    if (options.requestId !== undefined) {
      const { requestId: id } = options
      const known = this.#requests.get(id)
      // Closing twice is closing once (G5).
      if (this.#over.has(id))
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

  /** Everything of this process, and what ended ones left: logs, archives and records too; verified, and open again afterwards. */
  async reset(options: { readonly force?: boolean; readonly timeoutMs?: number } = {}): Promise<Report> {
    // New ones are let in before the report is here: they are not forgotten with the old ones.
    const old = [...this.#requests]
    const ids = [...this.#over, ...old.map(([id]) => id)]
    const report = await this.#control.cleanup.reset(options).report
    for (const [id, known] of old) {
      known.over.abort()
      if (this.#requests.get(id) === known) this.#requests.delete(id)
    }
    for (const id of ids) this.#over.delete(id)
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

/** setTimeout takes no more: a longer one would end at once. */
const longestMs = 2_147_483_647

export class Request implements AsyncDisposable {
  readonly id: string
  readonly #place: Place
  readonly #scopeId: string
  /** It takes nothing in any more, and nothing ends it any more. */
  readonly #over: AbortController
  readonly #onClean: () => void
  /** Of the close that is under way, or that succeeded. */
  #report: Promise<Report> | undefined

  constructor(
    place: Place & { readonly owner: { readonly requestId: string; readonly ownerScopeId: string } },
    options: RequestOptions,
    over: AbortController,
    onClean: () => void,
  ) {
    this.#over = over
    this.#onClean = onClean
    this.id = place.owner.requestId
    this.#place = place
    this.#scopeId = place.owner.ownerScopeId
    const end = (): void => void this.close().catch(noop)
    if (options.timeoutMs !== undefined) place.control.clock.after(options.timeoutMs, this.#over.signal, end)
    if (options.signal?.aborted) end()
    else options.signal?.addEventListener('abort', end, { once: true, signal: this.#over.signal })
  }

  launch(options: LaunchOptions): Promise<Agent> {
    if (this.#over.signal.aborted)
      return Promise.reject(new EbbError('scope_closed', `Request ${this.id} is closed and takes no agent; open another.`))
    return launch(this.#place, options)
  }

  /** Ends everything in the request, proven. Once that succeeded, its report is the answer; until then every call tries again. */
  close(options: { readonly force?: boolean } = {}): Promise<Report> {
    const { engine } = this.#place.control
    this.#over.abort()
    const closeRequest = { trigger: 'request-finished', ...(options.force && { force: true }) } as const
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
