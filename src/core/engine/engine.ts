import type { CloseRequest } from '../model/close-request.ts'
import { EbbError, isEbbError, sentence } from '../model/errors.ts'
import { ordinalOfResource } from '../model/identity.ts'
import type { Report } from '../model/report.ts'
import type { Intent, Presence, Resource } from '../model/resource.ts'
import type { Endings } from '../ports/endings.ts'
import type { Handles } from '../ports/handles.ts'
import type { KindTraits, Planned } from '../ports/kind.ts'
import type { IncarnationRecord, NewScope } from '../ports/ledger.ts'
import type { PreparedRow } from '../ports/prepared-row.ts'
import type * as api from './api.ts'
import { alreadyClean, close } from './close.ts'
import { EngineEvents } from './events.ts'
import { acquire, launch } from './launch.ts'
import { type Registration, record } from './opening.ts'
import { type EngineDeps, type EngineParts, tidy } from './parts.ts'
import { Progress } from './progress.ts'
import { noLongerNeeded, noop, scopeClosed, within } from './race.ts'
import type { Reaper } from './reap.ts'
import { recover } from './recover.ts'
import { type OwnedScope, ScopeRegistry } from './scope-registry.ts'

/** Makes the engine of one supervisor: a tree of scopes, and the calls that open them, launch into them and close them. */
export function createEngine(deps: EngineDeps): api.Engine {
  return new SupervisorEngine(deps)
}

export class SupervisorEngine implements api.Engine {
  readonly hostScopeId: string
  readonly parts: EngineParts
  #registration: Registration | undefined
  #reaper: Promise<Reaper> | undefined
  #isLeaving = false

  constructor({ endings = noEndings, adopter, ...deps }: EngineDeps) {
    this.parts = {
      ...deps,
      endings,
      registry: new ScopeRegistry(deps.kinds),
      operations: new Map(),
      events: new EngineEvents((error) => deps.log.error('A listener of the engine failed.', { error: String(error) })),
      running: { ...(adopter && { adopter }) },
    }
    this.hostScopeId = `host-${deps.host.incarnationId}`
  }

  begin(role: api.Role = { role: 'command' }): Promise<void> {
    const registration = this.#register(role)
    if (role.role === 'server' && registration.record.role !== 'server')
      throw new Error('This process is registered as a command already; a server calls `begin` before it opens a scope.')
    registration.recorded ??= this.#recordHost(registration)
    registration.recorded.catch(noop) // An error of the registration is thrown to the caller of `begin` and to every launch.
    return registration.recorded
  }

  /** Starts the sentinel and opens the host scope in memory. A command without `begin` is recorded by its first launch. */
  #register(role: api.Role = { role: 'command' }): Registration {
    if (this.#registration) return this.#registration
    const { host, sentinel, clock, registry } = this.parts
    const record = {
      id: host.incarnationId,
      installation: host.installation,
      identity: host.incarnation,
      role: role.role,
      address: role.role === 'server' ? role.address : undefined,
      claimedBy: undefined,
      registeredAt: clock.wall(),
    }
    registry.add({ id: this.hostScopeId, kind: 'host', parentId: undefined, incarnation: host.incarnationId }, { isRecorded: false })
    this.#registration = { record, watched: sentinel.ready() }
    return this.#registration
  }

  async #recordHost({ record: incarnation, watched }: Registration): Promise<void> {
    await watched
    const { registry, host } = this.parts
    const hostScope = registry.find(this.hostScopeId)
    // A launch may have recorded this process already.
    await hostScope?.recording
    if (!hostScope || hostScope.isRecorded) return
    const scope: NewScope = { id: this.hostScopeId, kind: 'host', parentId: undefined, incarnation: host.incarnationId }
    const recorded = this.#recordIncarnation(incarnation, scope)
    hostScope.recording = Promise.allSettled([recorded])
    await recorded
    hostScope.isRecorded = true
  }

  /** A second server on a home is refused with the pid and address of the first. The place of a dead server is taken over. */
  #recordIncarnation(record: IncarnationRecord, scope: NewScope): Promise<void> {
    const { ledger, host } = this.parts
    return ledger.register(record, scope).catch(async (error: unknown) => {
      const registered = isEbbError(error, 'server_running') ? error.details : undefined
      if (!registered || host.vitality(registered.id) !== 'dead') throw error
      // `unseatServer` returns false when the sentinel of the dead server has recovered that server meanwhile, or another server was
      // faster. Then the registration is tried again.
      if (!(await ledger.unseatServer(registered.id, record, scope))) await this.#recordIncarnation(record, scope)
    })
  }

  abandon(): void {
    this.parts.sentinel.dismiss()
  }

  openScope(scope: api.ScopeOptions): OwnedScope {
    const { registry, host } = this.parts
    this.#register()
    const parentId = scope.parentId ?? this.hostScopeId
    if (this.#isLeaving) throw scopeClosed(this.hostScopeId)
    if (registry.find(parentId)?.state !== 'open') throw scopeClosed(parentId)
    if (registry.find(scope.id)) throw new EbbError('scope_closed', `Scope ${scope.id} exists already; use another id.`)
    return registry.add({ ...scope, parentId, incarnation: host.incarnationId }, { isRecorded: false })
  }

  async record(scope: api.ScopeView, rows?: readonly PreparedRow[]): Promise<void> {
    await record(this.parts, this.#register(), this.#own(scope), rows)
  }

  reopen(id: string, parentId: string, request: CloseRequest): void {
    const { registry, ledger, host } = this.parts
    if (registry.find(id)) return
    const scope = { id, kind: 'agent' as const, parentId, incarnation: host.incarnationId }
    const reopened = this.#recordIfOurs(parentId).then(() => ledger.reopen(scope, request))
    // The next close of the scope waits for the write that reopens it, whether or not that write succeeds.
    registry.add(scope, { isRecorded: true, recording: Promise.allSettled([reopened]) }, 'closing', request)
  }

  async condemn(agentIds: readonly string[]): Promise<void> {
    await this.begin()
    const host = { id: this.hostScopeId, incarnation: this.parts.host.incarnationId }
    await this.parts.ledger.condemn(agentIds, host, { trigger: 'deleted' })
  }

  async acquire(scope: api.ScopeView, plan: readonly Planned[]): Promise<Handles> {
    return await acquire(this.parts, this.#own(scope), { plan, rows: [] }, this.#register())
  }

  async launch(scope: api.ScopeView, plan: readonly Planned[], rows: readonly PreparedRow[] = []): Promise<Handles> {
    return await launch(this.parts, this.#own(scope), { plan, rows }, this.#register())
  }

  /** Finds a scope of this process. A scope that is no longer in memory accepts nothing. */
  #own({ id }: { readonly id: string }): OwnedScope {
    const scope = this.parts.registry.find(id)
    if (!scope) throw scopeClosed(id)
    return scope
  }

  async #recordIfOurs(scopeId: string): Promise<void> {
    const scope = this.parts.registry.find(scopeId)
    if (scope) await record(this.parts, this.#register(), scope)
  }

  close(scopeId: string, request: CloseRequest, options: api.CloseOptions = {}): Promise<Report> {
    return close(this.parts, scopeId, request, options)
  }

  async combine(about: api.CombinedClose, work: (whole: Progress) => Promise<Report>): Promise<api.Combined> {
    const { clock, ledger, log, events } = this.parts
    const whole = new Progress(events.progress, { ...about, startedAt: clock.wall(), startedMs: clock.now() })
    try {
      const report = await work(whole)
      const stored = ledger
        .addReport({ id: about.id, body: report })
        .catch((error: unknown) => log.warn('A report could not be stored.', { error: String(error) }))
      await within(clock, storeBudgetMs, stored)
      whole.end()
      events.emit('report', report, about.namespace, about.id)
      return { report, stored }
    } finally {
      whole.end()
    }
  }

  recover(options?: api.RecoverOptions): Promise<api.Recovery> {
    return recover(this.parts, options)
  }

  async adopt({ scopes, resources }: api.Adoption): Promise<api.Adopted> {
    const { registry, ledger, host, clock } = this.parts
    const [outermost, innermost] = [scopes[0], scopes.at(-1)]
    if (!outermost || !innermost) throw new Error('An adoption needs a scope.')
    await this.#recordIfOurs(outermost.parentId)
    await ledger.inherit(scopes, host.incarnationId)
    // The new parent of the adopted scopes may have begun to close while the ledger was written (G13).
    const parent = registry.find(innermost.parentId) ?? registry.find(outermost.parentId)
    if (parent?.state !== 'open') throw scopeClosed(parent?.id ?? outermost.parentId)
    const adopted = scopes.filter(({ id }) => !registry.find(id)).map((scope) => ({ ...scope, incarnation: host.incarnationId }))
    registry.load(
      adopted,
      resources.filter(({ scopeId }) => adopted.some(({ id }) => id === scopeId)),
    )
    for (const { id } of adopted) await this.#continueNumbering(id)
    const scope = this.#own(innermost)
    const resume = async (): Promise<void> => {
      const { signal } = new AbortController()
      for (const { kind, ref } of scope.entries.values()) {
        const handle = await kind.resume?.(ref, { signal, clock })
        const label = kind.planLabel?.(ref)
        if (label !== undefined) scope.handles.add(label, handle)
      }
    }
    return { scope, resume }
  }

  /** Continues the numbering after the last resource of the scope in the ledger, so that no resource id is used twice. */
  async #continueNumbering(scopeId: string): Promise<void> {
    const { registry, ledger } = this.parts
    const scope = registry.find(scopeId)
    if (!scope) return
    const known = await ledger.resources(scopeId)
    scope.nextOrdinal = Math.max(0, ...known.map(({ id }) => ordinalOfResource(id))) + 1
  }

  async reap(request: api.ReapRequest): Promise<api.ReaperPass> {
    // The reaper is loaded on first use: `ebb exec` has no reaper, and every module costs it start-up time.
    this.#reaper ??= import('./reap.ts').then(({ Reaper: Pass }) => new Pass(this.parts))
    return await (await this.#reaper).pass(request)
  }

  startReaping(signal: AbortSignal): void {
    const { clock, log, reaper } = this.parts
    clock.every(reaper.intervalMs, signal, () => {
      this.reap({ dryRun: false }).catch((error: unknown) => log.error('The reaper pass failed.', { error: String(error) }))
    })
  }

  inspect(scopeId: string): api.ScopeView | undefined {
    return this.parts.registry.find(scopeId)
  }

  inspectTree(scopeId: string): readonly api.ScopeView[] {
    return this.parts.registry.tree(scopeId)
  }

  scopes(): Iterable<api.ScopeView> {
    return this.parts.registry.scopes()
  }

  owns(scopeId: string): boolean {
    return this.parts.registry.find(scopeId) !== undefined
  }

  closeOf(scopeId: string): { readonly id: string; readonly isReported: boolean } | undefined {
    const operation = this.parts.operations.get(scopeId)
    return operation && { id: operation.id, isReported: operation.progress.about !== undefined }
  }

  namespaceOf(scopeId: string): string | undefined {
    const scope = this.parts.registry.find(scopeId)
    return scope && this.parts.registry.namespaceOf(scope)
  }

  async resources(scopeId: string): Promise<readonly Resource[]> {
    const { ledger, registry } = this.parts
    return (await ledger.resources(scopeId)).map((resource) => registry.current(resource))
  }

  async openResources(): Promise<readonly Resource[]> {
    return (await this.parts.ledger.contents(undefined, 'open')).resources
  }

  async observe(resource: Intent, timeoutMs: number): Promise<Presence | undefined> {
    const { kinds, clock } = this.parts
    const kind = kinds.get(resource.kind)
    if (!kind) return undefined
    const lifetime = new AbortController()
    try {
      const seen = await within(clock, timeoutMs, kind.observe(kind.name(resource), { signal: lifetime.signal, clock }))
      return seen.timedOut ? { is: 'unknown', reason: 'the observation got no answer in time' } : seen.value
    } catch (error) {
      return { is: 'unknown', reason: sentence(error) }
    } finally {
      lifetime.abort(noLongerNeeded)
    }
  }

  async look(sources: api.StatusSources): Promise<api.SystemObservation> {
    const { observeSystem } = await import('./status.ts')
    return await observeSystem(this.parts, sources)
  }

  async otherIncarnations(): Promise<ReadonlySet<string>> {
    const { host, ledger } = this.parts
    const others = (await ledger.incarnations()).filter(({ id }) => id !== host.incarnationId && host.vitality(id) !== 'dead')
    return new Set(others.map(({ id }) => id))
  }

  traitsOf(kind: string): KindTraits | undefined {
    return this.parts.kinds.get(kind)
  }

  on<K extends keyof api.EngineEventMap>(name: K, listener: api.EngineListener<K>): Disposable {
    return this.parts.events.on(name, listener)
  }

  async leave(request: CloseRequest): Promise<Report> {
    const { registry, running } = this.parts
    // From here on the host scope accepts nothing, like a scope that is closing (G13). Kept agents keep the host scope open.
    this.#isLeaving = true
    // A recovery that still runs leaves what it has not yet adopted to the next server.
    delete running.adopter
    const kept = new Set(this.keptAgents().flatMap((id) => this.#pathTo(id)))
    if (kept.size === 0) return await this.shutDown(request)
    const others = [...registry.scopes()].filter(({ id, parentId }) => !kept.has(id) && kept.has(parentId ?? ''))
    const reports = await Promise.all(others.map(({ id }) => this.close(id, request)))
    const [first = alreadyClean(this.parts, this.hostScopeId, request), ...rest] = reports
    const report = rest.reduce(together, { ...first, scope: { kind: 'host', id: this.hostScopeId } })
    // A kept agent may have ended by itself, and the close of its scope may still run.
    if (report.success && (await this.#closesSucceed())) this.#dismiss()
    return report
  }

  /** True when every running close succeeds within a short time. */
  async #closesSucceed(): Promise<boolean> {
    const { clock, operations } = this.parts
    const ended = await within(clock, lastClosesBudgetMs, Promise.allSettled([...operations.values()].map(({ report }) => report)))
    return !ended.timedOut && ended.value.every((close) => close.status === 'fulfilled' && close.value.success)
  }

  /** Dismisses the sentinel, except while a recovery runs. The sentinel must then finish what this process leaves of that recovery. */
  #dismiss(): void {
    if (this.parts.running.recovery === undefined) this.parts.sentinel.dismiss()
  }

  keptAgents(): readonly string[] {
    return [...this.parts.registry.scopes()]
      .filter((scope) => scope.kind === 'agent' && scope.state === 'open' && isKept(scope))
      .map(({ id }) => id)
  }

  #pathTo(id: string): readonly string[] {
    const scope = this.parts.registry.find(id)
    return scope ? [id, ...(scope.parentId === undefined ? [] : this.#pathTo(scope.parentId))] : []
  }

  async shutDown(request: CloseRequest = { trigger: 'process-exit' }): Promise<Report> {
    const { registry, ledger, host, clock, givesUpAtExit } = this.parts
    const scope = registry.find(this.hostScopeId)
    const report =
      scope && scope.children.size + scope.entries.size > 0
        ? await this.close(scope.id, { ...request, ...(givesUpAtExit && { givesUp: true }) })
        : alreadyClean(this.parts, this.hostScopeId, request)
    if (!report.success) return report
    // From here on nothing is opened: the record of this process is about to go.
    this.#isLeaving = true
    const retired = tidy(this.parts, host.incarnationId)
      .then(() => ledger.retire(host.incarnationId))
      .catch(() => false)
    const done = await within(clock, retireBudgetMs, retired)
    // When the ledger could not be updated in time, the sentinel stays, and its recovery updates the ledger.
    if (!done.timedOut && done.value) this.#dismiss()
    return report
  }
}

/** The endings of supervisors that store no agents. */
const noEndings: Endings = {
  clear: async () => ({ left: new Map(), messagesGone: 0 }),
  prepare: async () => ({ ended: [], messagesGoing: 0 }),
  settled: noop,
  lost: async () => [],
  exited: async () => {},
}

function isKept({ entries }: OwnedScope): boolean {
  return entries.size > 0 && [...entries.values()].every(({ intent, state }) => intent.onLoss === 'keep' && state === 'held')
}

function together(a: Report, b: Report): Report {
  return {
    ...a,
    success: a.success && b.success,
    duration: Math.max(a.duration, b.duration),
    cleanedAgentsCount: a.cleanedAgentsCount + b.cleanedAgentsCount,
    cleanedMessagesCount: a.cleanedMessagesCount + b.cleanedMessagesCount,
    resources: [...a.resources, ...b.resources],
    errors: [...a.errors, ...b.errors],
    gaveUp: [...a.gaveUp, ...b.gaveUp],
  }
}

const retireBudgetMs = 1_000
const lastClosesBudgetMs = 1_000
/** How long a combined close waits until its report is stored. A locked database stores it later, or never. */
const storeBudgetMs = 200
