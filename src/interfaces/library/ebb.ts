import { EbbError } from '../../domain/errors.ts'
import type { Trigger } from '../../domain/policy.ts'
import type { Report } from '../../domain/report.ts'
import { Reaper } from '../../engine/reap.ts'
import { type Status, worldStatus } from '../../engine/status.ts'
import type { Supervisor } from '../../main.ts'
import { Agent, type LaunchOptions, requireReleased } from './agent.ts'
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

/** Ebb in your own process: the same engine, the same guarantees, and blocks that close what they opened. */
export class Ebb implements AsyncDisposable {
  readonly #supervisor: Supervisor
  readonly #lifetime = new AbortController()
  readonly #requests = new Map<string, Request>()
  #generation = 1
  #namespaceId: string
  #closing: Promise<void> | undefined

  constructor(supervisor: Supervisor, reaper: { intervalMs: number; minimumAgeMs: number }) {
    this.#supervisor = supervisor
    this.#namespaceId = this.#openNamespace()
    leaveCleanly(supervisor, this.#lifetime.signal, () => this[Symbol.asyncDispose]())
    new Reaper(supervisor.engine.parts, reaper).start(this.#lifetime.signal)
  }

  /** A reset closes one generation of the namespace; the next opens when the reset answers. */
  #openNamespace(): string {
    const { engine } = this.#supervisor
    return engine.openScope({ id: `namespace-${engine.parts.host.incarnationId}-${this.#generation++}`, kind: 'namespace' }).id
  }

  /** A request owns what is launched in it, and closes for good. */
  request(id: string, options: RequestOptions = {}): Request {
    if (!/^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$/.test(id))
      throw new EbbError('bad_usage', `"${id}" cannot be a request id; use letters, digits, and . _ : - (at most 100).`)
    if (this.#requests.has(id)) throw new EbbError('scope_closed', `Request ${id} exists already in this process; use another id.`)
    const { engine } = this.#supervisor
    const scope = engine.openScope({ id: `request-${engine.parts.newId()}`, kind: 'request', parentId: this.#namespaceId })
    const request = new Request(this.#supervisor, id, scope.id, options)
    this.#requests.set(id, request)
    return request
  }

  launch(options: LaunchOptions): Promise<Agent> {
    return Agent.launch(this.#supervisor, this.#namespaceId, options)
  }

  /** The unified cleanup: one request or agent, or everything of this process. */
  async cleanup(options: CleanupOptions): Promise<Report> {
    const { engine } = this.#supervisor
    const force = options.force ? { force: true } : {}
    if (options.scope === 'all') return await this.#closeNamespace('request-finished', force)
    if (options.requestId !== undefined) {
      const request = this.#requests.get(options.requestId)
      if (!request) throw new EbbError('bad_usage', `There is no request ${options.requestId} in this process.`)
      return await request.close(force)
    }
    if (options.agentId === undefined) throw new EbbError('bad_usage', 'A cleanup of scope "single" needs a requestId or an agentId.')
    return await engine.close(options.agentId, { trigger: 'terminated', ...force })
  }

  status(): Promise<Status> {
    return worldStatus(this.#supervisor.engine.parts, this.#supervisor)
  }

  /** Everything of this process goes, logs and records too; verified, and open again afterwards. */
  reset(options: { readonly force?: boolean } = {}): Promise<Report> {
    return this.#closeNamespace('test-reset', options.force ? { force: true } : {})
  }

  async #closeNamespace(trigger: Trigger, force: { force?: boolean }): Promise<Report> {
    const report = await this.#supervisor.engine.close(this.#namespaceId, { trigger, ...force })
    this.#requests.clear()
    this.#namespaceId = this.#openNamespace()
    return report
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const report = await this.#supervisor.engine.shutDown()
    this.#lifetime.abort()
    await this.#supervisor.close()
    requireReleased(report)
  }
}

export class Request implements AsyncDisposable {
  readonly id: string
  readonly #supervisor: Supervisor
  readonly #scopeId: string
  readonly #over = new AbortController()
  #report: Promise<Report> | undefined

  constructor(supervisor: Supervisor, id: string, scopeId: string, options: RequestOptions) {
    this.id = id
    this.#supervisor = supervisor
    this.#scopeId = scopeId
    const end = (): void => void this.close().catch(() => {})
    if (options.timeoutMs !== undefined) supervisor.engine.parts.clock.after(options.timeoutMs, this.#over.signal, end)
    if (options.signal?.aborted) end()
    else options.signal?.addEventListener('abort', end, { once: true, signal: this.#over.signal })
  }

  launch(options: LaunchOptions): Promise<Agent> {
    if (this.#report) return Promise.reject(new EbbError('scope_closed', `Request ${this.id} is closed and takes no agent; open another.`))
    return Agent.launch(this.#supervisor, this.#scopeId, options)
  }

  /** Ends everything in the request, proven. Closing twice is closing once, and the first report is the answer. */
  close(options: { readonly force?: boolean } = {}): Promise<Report> {
    this.#over.abort()
    if (this.#report && options.force) void this.#supervisor.engine.close(this.#scopeId, { trigger: 'request-finished', force: true })
    this.#report ??= this.#supervisor.engine.close(this.#scopeId, { trigger: 'request-finished', ...(options.force && { force: true }) })
    return this.#report
  }

  async [Symbol.asyncDispose](): Promise<void> {
    requireReleased(await this.close())
  }
}
