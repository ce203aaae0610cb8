import { EbbError, isEbbError } from '../domain/errors.ts'
import type { Report } from '../domain/report.ts'
import type { Resource } from '../domain/resource.ts'
import type { Wish } from '../domain/scope.ts'
import type { Clock } from '../ports/clock.ts'
import type { Endings } from '../ports/endings.ts'
import type { Host, Sentinel } from '../ports/host.ts'
import type { NewId } from '../ports/ids.ts'
import type { Kinds, Planned } from '../ports/kind.ts'
import type { IncarnationRecord, Ledger, NewScope } from '../ports/ledger.ts'
import type { Log } from '../ports/log.ts'
import { Book, type BookScope } from './book.ts'
import { alreadyClean, type CloseOptions, close } from './close.ts'
import type { Flight } from './flight.ts'
import type { Adopter } from './keep.ts'
import { acquire, type Handles, launch } from './launch.ts'
import type { Watcher } from './progress.ts'
import { noop, scopeClosed, within } from './race.ts'
import { type Recovery, recover, recoverPatiently } from './recover.ts'

/** What the engine needs; it knows no kind, no store and no process by name. */
export interface EngineDeps {
  readonly ledger: Ledger
  readonly kinds: Kinds
  readonly clock: Clock
  readonly host: Host
  readonly sentinel: Sentinel
  readonly log: Log
  readonly newId: NewId
  /** Told of every close, in which namespace it was, if in one, and as what the audit trail has it. */
  readonly onReport?: (report: Report, namespace?: string, id?: string) => void
  readonly endings?: Endings
  /** At an exit, what is owed and cannot be met in time is given up instead of held back. */
  readonly givesUpAtExit?: boolean
}

/** What the engine's functions share. */
export interface EngineParts extends Omit<EngineDeps, 'onReport' | 'endings'> {
  readonly endings: Endings
  readonly book: Book
  readonly flights: Map<string, Flight>
  readonly running: { recovery?: Promise<Recovery>; adopter?: Adopter; watcher?: Watcher }
  readonly onReport: (report: Report, namespace?: string, id?: string) => void
}

export type Role = { readonly role: 'command' } | { readonly role: 'server'; readonly address: string }

/** One supervisor's engine: scopes in a tree, launched and closed by the same few verbs for every flow. */
export class Engine {
  readonly parts: EngineParts
  readonly hostScopeId: string
  readonly #deps: EngineDeps
  #beginning: Beginning | undefined
  #isLeaving = false

  constructor(deps: EngineDeps) {
    this.#deps = deps
    this.parts = {
      ...deps,
      book: new Book(deps.kinds),
      flights: new Map(),
      running: {},
      onReport: deps.onReport ?? noop,
      endings: deps.endings ?? noEndings,
    }
    this.hostScopeId = `host-${deps.host.incarnationId}`
  }

  /** The sentinel watches before the first intent; then this incarnation and its host scope are on the books. */
  begin(role: Role = { role: 'command' }): Promise<void> {
    this.#beginning ??= this.#begin(role)
    return this.#beginning.recorded
  }

  #begin(role: Role): Beginning {
    const { host, sentinel, clock, book } = this.parts
    const record = {
      id: host.incarnationId,
      installation: host.installation,
      identity: host.incarnation,
      role: role.role,
      address: role.role === 'server' ? role.address : undefined,
      claimedBy: undefined,
      registeredAt: clock.wall(),
    }
    const scope: NewScope = { id: this.hostScopeId, kind: 'host', parentId: undefined, incarnation: host.incarnationId }
    const watched = sentinel.ready()
    const recorded = watched.then(() => this.#register(record, scope))
    recorded.catch(noop)
    book.add(scope, recorded)
    return { watched, recorded }
  }

  /** A second server on a home is refused with the pid and address of the first; a dead one's place is taken over. */
  #register(record: IncarnationRecord, scope: NewScope): Promise<void> {
    const { ledger, host } = this.parts
    return ledger.register(record, scope).catch(async (error: unknown) => {
      const seated = isEbbError(error, 'server_running') ? (error.details as IncarnationRecord) : undefined
      if (!seated || host.vitality(seated.id) !== 'dead') throw error
      // Not there any more: its sentinel has recovered it meanwhile, or another server was quicker. Who has the seat now is asked again.
      if (!(await ledger.unseatServer(seated.id, record, scope))) await this.#register(record, scope)
    })
  }

  /**
   * Opens a scope at once in the book; `recorded` settles when the ledger has it too. What is asked for in one turn
   * shares a transaction, so a first launch costs one fsync: incarnation, scopes and intents together.
   */
  openScope(scope: Omit<NewScope, 'incarnation' | 'parentId'> & { readonly parentId?: string; readonly label?: string }): BookScope {
    const { book, ledger, host } = this.parts
    this.begin()
    const parentId = scope.parentId ?? this.hostScopeId
    if (this.#isLeaving) throw scopeClosed(this.hostScopeId)
    if (book.find(parentId)?.state !== 'open') throw scopeClosed(parentId)
    if (book.find(scope.id)) throw new EbbError('scope_closed', `Scope ${scope.id} exists already; use another id.`)
    const opened = { ...scope, parentId, incarnation: host.incarnationId }
    const recorded = this.#watched().then(() => ledger.openScope(opened))
    recorded.catch(noop)
    return book.add(opened, recorded)
  }

  /** A closed scope of which something is left after all is on the books again, and closing: who closes it next carries on (G11). */
  reopen(id: string, parentId: string, wish: Wish): void {
    const { book, ledger, host } = this.parts
    if (book.find(id)) return
    const scope = { id, kind: 'agent' as const, parentId, incarnation: host.incarnationId }
    const recorded = Promise.resolve(book.find(parentId)?.recorded).then(() => ledger.reopen(scope, wish))
    recorded.catch(noop)
    book.add(scope, recorded, 'closing', wish)
  }

  /** Before archives and rows of agents that have ended are removed: a crash in the middle is carried on by the recovery (G9). */
  async condemn(agentIds: readonly string[]): Promise<void> {
    await this.begin()
    const host = { id: this.hostScopeId, incarnation: this.parts.host.incarnationId }
    await this.parts.ledger.condemn(agentIds, host, { trigger: 'deleted' })
  }

  acquire(scope: BookScope, plan: readonly Planned[]): Promise<Handles> {
    return acquire(this.parts, scope, plan, this.#watched())
  }

  launch(scope: BookScope, plan: readonly Planned[]): Promise<Handles> {
    return launch(this.parts, scope, plan, this.#watched())
  }

  /** Of one scope, as they are this moment. */
  async resources(scopeId: string): Promise<readonly Resource[]> {
    const { ledger, book } = this.parts
    return (await ledger.resources(scopeId)).map((resource) => book.current(resource))
  }

  #watched(): Promise<void> {
    return this.#beginning?.watched ?? Promise.resolve()
  }

  close(scopeId: string, wish: Wish, options: CloseOptions = {}): Promise<Report> {
    return close(this.parts, scopeId, wish, options)
  }

  /** From now on a recovery gives what outlived its supervisor to this one. */
  adoptBy(adopter: Adopter): void {
    this.parts.running.adopter = adopter
  }

  /** From now on every close tells how far it is. */
  watchBy(watcher: Watcher): void {
    this.parts.running.watcher = watcher
  }

  recover(): Promise<Recovery> {
    return recover(this.parts)
  }

  /** For those who have no reaper to try again with: what they cannot finish is anybody's. */
  recoverInPassing(): Promise<Recovery> {
    return recover(this.parts, false)
  }

  recoverPatiently(budgetMs: number): Promise<Recovery> {
    return recoverPatiently(this.parts, budgetMs)
  }

  /** Closes everything but what is kept; that stays on the books of this incarnation, for the next one to adopt. */
  async leave(wish: Wish): Promise<Report> {
    const { book } = this.parts
    // From here on nothing comes in, as in a host that is closing (G13): who is kept keeps the host open.
    this.#isLeaving = true
    // A recovery that is still under way can adopt nothing any more: what it has not yet adopted stays for the next one, too.
    delete this.parts.running.adopter
    const kept = new Set(this.keptAgents().flatMap((id) => this.#pathTo(id)))
    if (kept.size === 0) return await this.shutDown(wish)
    const others = [...book.scopes()].filter(({ id, parentId }) => !kept.has(id) && kept.has(parentId ?? ''))
    const reports = await Promise.all(others.map(({ id }) => this.close(id, wish)))
    const [first = alreadyClean(this.parts, this.hostScopeId, wish), ...rest] = reports
    const report = rest.reduce(together, { ...first, scope: { kind: 'host', id: this.hostScopeId } })
    // One of the kept may have ended by itself meanwhile.
    if (report.success && (await this.#hasLanded())) this.#dismiss()
    return report
  }

  /** Is every close through that began by itself? */
  async #hasLanded(): Promise<boolean> {
    const { clock, flights } = this.parts
    const landed = await within(clock, landingBudgetMs, Promise.allSettled([...flights.values()].map(({ report }) => report)))
    return !landed.timedOut && landed.value.every((one) => one.status === 'fulfilled' && one.value.success)
  }

  /** With a recovery half-way the sentinel stays: its own carries on where we leave. */
  #dismiss(): void {
    if (this.parts.running.recovery === undefined) this.#deps.sentinel.dismiss()
  }

  /** The scopes of those that outlive this process, as it is now. */
  keptAgents(): readonly string[] {
    return [...this.parts.book.scopes()]
      .filter((scope) => scope.kind === 'agent' && scope.state === 'open' && isKept(scope))
      .map(({ id }) => id)
  }

  #pathTo(id: string): readonly string[] {
    const scope = this.parts.book.find(id)
    return scope ? [id, ...(scope.parentId === undefined ? [] : this.#pathTo(scope.parentId))] : []
  }

  /** Closes everything, takes this incarnation off the books, and lets the sentinel go. */
  async shutDown(wish: Wish = { trigger: 'process-exit' }): Promise<Report> {
    const { book, ledger, host, clock } = this.parts
    const scope = book.find(this.hostScopeId)
    const report =
      scope && scope.children.size + scope.entries.size > 0
        ? await this.close(scope.id, { ...wish, ...(this.#deps.givesUpAtExit && { givesUp: true }) })
        : alreadyClean(this.parts, this.hostScopeId, wish)
    if (!report.success) return report
    const retired = tidy(this.parts, host.incarnationId)
      .then(() => ledger.retire(host.incarnationId))
      .catch(() => false)
    const done = await within(clock, retireBudgetMs, retired)
    // With books that are behind the sentinel stays, and its recovery puts them right.
    if (!done.timedOut && done.value) this.#dismiss()
    return report
  }
}

/** For those who have no agents with rows. */
const noEndings: Endings = {
  clear: async () => ({ left: new Map(), messagesGone: 0 }),
  prepare: async () => ({ ended: [], messagesGoing: 0 }),
  settled: noop,
  lost: async () => [],
  exited: async () => {},
}

function isKept({ entries }: BookScope): boolean {
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

/** What an incarnation's resources shared goes after the last of them, and before the incarnation leaves the books. */
export async function tidy(parts: EngineParts, incarnation: string): Promise<void> {
  const ctx = { signal: new AbortController().signal, clock: parts.clock }
  for (const kind of parts.kinds.values()) await kind.tidy?.(incarnation, ctx)
}

interface Beginning {
  /** The sentinel watches: intents may be queued behind the incarnation's own record. */
  readonly watched: Promise<void>
  readonly recorded: Promise<void>
}

const retireBudgetMs = 1_000
const landingBudgetMs = 1_000
