import { activeStatuses, finalStatuses, hasEnded } from '../domain/agent.ts'
import { sentence } from '../domain/errors.ts'
import { scopeOfResource } from '../domain/identity.ts'
import type { Trigger } from '../domain/policy.ts'
import type { Report } from '../domain/report.ts'
import type { ScopeKind, Wish } from '../domain/scope.ts'
import type { Engine } from '../engine/engine.ts'
import { noop, type Timed, within } from '../engine/race.ts'
import { lookAtWorld, type Seen, type Status, type World } from '../engine/status.ts'
import type { AgentStore } from '../ports/agents.ts'
import type { Clock } from '../ports/clock.ts'
import type { TreeMember } from '../ports/process.ts'
import type { Agents } from './agents.ts'
import type { History } from './history.ts'
import type { Namespaces } from './namespaces.ts'

export interface CleanupDeps {
  readonly engine: Engine
  readonly store: AgentStore
  readonly agents: Agents
  readonly namespaces: Namespaces
  readonly history: History
  readonly runningProcesses: () => Promise<readonly TreeMember[]>
}

export interface ResetOptions {
  /** Without it: every namespace of this supervisor. */
  readonly namespace?: string
  readonly force?: boolean
  /** For polite and terminate of all together; what is still there is then killed. */
  readonly timeoutMs?: number
}

export interface Undertaken {
  /** Under which the history knows it. */
  readonly id: string
  readonly report: Promise<Report>
}

/** So many agents that have ended go in one transaction. */
const removedAtOnce = 200

/** So many things of a sort are named when a world is not clean; the rest are counted. */
const namedAtMost = 20

const defaultResetMs = 10_000

/** After its timeout a reset kills for so long at most. */
const killBudgetMs = 3_800

/** It answers so long after its timeout, also when the database does not; the rest of five seconds is for the answer's own way. */
const answerBudgetMs = 4_600

/** Of which the rows and the look at the world get this. */
const lookBudgetMs = 400

/** Even then one look is worth its time. */
const leastMs = 200

/** Closing more than one scope, and looking whether the world is clean. */
export class Cleanup {
  readonly #deps: CleanupDeps
  readonly #resets = new Map<string, Undertaken & { readonly deadline: Deadline }>()
  /** Names the living subscriptions; the socket server knows. */
  subscriptions: (namespace: string | undefined) => readonly string[] = () => []
  /** Ends them, with a word to those who had them. */
  dropSubscriptions: (namespace: string | undefined) => void = () => {}

  constructor(deps: CleanupDeps) {
    this.#deps = deps
  }

  /** Two resets of the same thing are one, and the stronger wish wins; each caller gets the same report. */
  reset(options: ResetOptions): Undertaken {
    const { engine, history } = this.#deps
    const { namespace, timeoutMs = defaultResetMs } = options
    const key = namespace === undefined ? '*' : `namespace ${namespace}`
    const untilMs = engine.parts.clock.now() + timeoutMs + answerBudgetMs
    const joined = this.#resets.get(key)
    if (joined) {
      joined.deadline.advance(untilMs)
      const closing = this.#scopes(namespace).filter((id) => engine.parts.flights.has(id))
      for (const id of closing) engine.close(id, this.#resetWish(options), { isPart: true }).catch(noop)
      return joined
    }
    const id = engine.parts.newId()
    const scope = nameOf(namespace, engine)
    const deadline = new Deadline(engine.parts.clock, untilMs)
    const work = (): Promise<Report> => this.#resetAndLook(options, deadline)
    const report = history.record(id, 'test-reset', scope, work).finally(() => this.#resets.delete(key))
    const undertaken = { id, report, deadline }
    this.#resets.set(key, undertaken)
    report.catch(noop)
    return undertaken
  }

  async #resetAndLook(options: ResetOptions, deadline: Deadline): Promise<Report> {
    const { namespaces } = this.#deps
    const { namespace } = options
    return await namespaces.reset(namespace, async () => {
      const report = await this.#closeAll(namespace, this.#resetWish(options), deadline)
      // An agent that went took its subscriptions with it; one may have come after that.
      this.dropSubscriptions(namespace)
      const issues = await this.#issues(namespace, deadline)
      return issues.length === 0 ? report : { ...report, success: false, errors: [...report.errors, ...issues] }
    })
  }

  /** Why the world is not clean. One that cannot be looked at is not (G4). */
  async #issues(namespace: string | undefined, deadline: Deadline): Promise<readonly string[]> {
    try {
      const looked = await deadline.race(this.look(namespace))
      if (looked.timedOut) return ['The look at the world did not come back in time.']
      const { status, issues } = looked.value
      return status.isClean || issues.length > 0 ? issues : ['The world is not clean.']
    } catch (error) {
      return [`The world could not be looked at: ${sentence(error)}`]
    }
  }

  #resetWish({ force, timeoutMs = defaultResetMs }: ResetOptions): Wish {
    return { trigger: 'test-reset', forget: true, graceMs: timeoutMs, deadlineMs: timeoutMs + killBudgetMs, ...(force && { force }) }
  }

  /** Everything of a namespace, or of all, for another reason than a reset: rows and archives are kept. */
  closeNamespace(namespace: string | undefined, trigger: Trigger, force: boolean): Promise<Report> {
    const { engine, history } = this.#deps
    const wish: Wish = { trigger, ...(force && { force }) }
    return history.record(engine.parts.newId(), trigger, nameOf(namespace, engine), () => this.#closeAll(namespace, wish))
  }

  #scopes(namespace: string | undefined): readonly string[] {
    return this.#deps.namespaces.scopesOf(namespace)
  }

  async #closeAll(namespace: string | undefined, wish: Wish, deadline?: Deadline): Promise<Report> {
    const { engine } = this.#deps
    const { clock } = engine.parts
    const startedMs = clock.now()
    const startedAt = clock.wall()
    const closing = Promise.all(this.#scopes(namespace).map((id) => engine.close(id, wish, { isPart: true })))
    const closed = await (deadline ? deadline.race(closing, lookBudgetMs) : closing.then(inTime))
    const ended = deadline ? await this.#forgetRest(namespace, wish, deadline) : nothingLeft()
    const reports = [...(closed.timedOut ? [] : closed.value), ...ended.reports]
    const errors = [...(closed.timedOut ? ['Not everything was closed in time; it goes on.'] : []), ...ended.errors]
    return {
      success: errors.length === 0 && reports.every(({ success }) => success),
      trigger: wish.trigger,
      scope: nameOf(namespace, engine),
      startedAt,
      duration: Math.round((clock.now() - startedMs) * 10) / 10,
      cleanedAgentsCount: ended.agents + sum(reports, ({ cleanedAgentsCount }) => cleanedAgentsCount),
      cleanedMessagesCount: ended.messages + sum(reports, ({ cleanedMessagesCount }) => cleanedMessagesCount),
      resources: reports.flatMap(({ resources }) => resources),
      errors: [...errors, ...reports.flatMap((report) => report.errors)],
      gaveUp: reports.flatMap(({ gaveUp }) => gaveUp),
    }
  }

  /** Agents that are not of this life, or were over before. A database that does not answer is not waited for without end. */
  async #forgetRest(namespace: string | undefined, wish: Wish, deadline: Deadline): Promise<Rest> {
    const rest = nothingLeft()
    const over = new AbortController()
    const work = async (): Promise<void> => {
      rest.reports.push(...(await this.#closeRecovered(namespace, wish)))
      await this.#removeEnded(namespace, rest, over.signal)
    }
    try {
      const done = await deadline.race(work())
      if (done.timedOut) rest.errors.push('The database did not answer in time, so rows are left.')
    } catch (error) {
      rest.errors.push(sentence(error))
    } finally {
      over.abort()
    }
    return rest
  }

  /** Agents of supervisors that died are over after a recovery, or are ours to end, with what it could not release. */
  async #closeRecovered(namespace: string | undefined, wish: Wish): Promise<readonly Report[]> {
    const { engine, store } = this.#deps
    await engine.recover()
    const exceptIncarnations = await this.#foreignIncarnations()
    const { agents: left } = await store.list({
      statuses: activeStatuses,
      exceptIncarnations,
      ...(namespace !== undefined && { namespace }),
    })
    const ours = left.filter(({ id }) => engine.parts.book.find(id))
    const reports = await Promise.all(ours.map(({ id }) => engine.close(id, wish, { isPart: true })))
    // With its last scope an incarnation leaves the books.
    if (ours.length > 0) await engine.recover()
    return reports
  }

  /** Agents that were over before: their archives and rows. Another living ebb's are its own. */
  async #removeEnded(namespace: string | undefined, rest: Rest, signal: AbortSignal): Promise<void> {
    const { store, agents } = this.#deps
    const exceptIncarnations = await this.#foreignIncarnations()
    // Also those that were to be deleted before, and are stuck since.
    const filter = {
      statuses: [...finalStatuses, 'stuck' as const],
      exceptIncarnations,
      limit: removedAtOnce,
      ...(namespace !== undefined && { namespace }),
    }
    // Page by page, because what cannot be removed stays.
    let cursor: string | undefined
    do {
      const page = await store.list({ ...filter, ...(cursor !== undefined && { cursor }) })
      // Who has ended since the reset answered is not its business.
      if (signal.aborted) return
      const removed = await agents.remains.remove(page.agents.filter(hasEnded))
      rest.agents += removed.agents
      rest.messages += removed.messages
      rest.errors.push(...removed.errors)
      cursor = page.nextCursor
    } while (cursor !== undefined)
    await store.removeOwners(namespace)
  }

  async #foreignIncarnations(): Promise<ReadonlySet<string>> {
    const { host, ledger } = this.#deps.engine.parts
    const others = (await ledger.incarnations()).filter(({ id }) => id !== host.incarnationId && host.vitality(id) !== 'dead')
    return new Set(others.map(({ id }) => id))
  }

  /** Counted in the world, not in the ledger alone. What belongs to another living ebb is not ours to count. */
  async status(namespace: string | undefined): Promise<Status> {
    return (await this.#world(namespace)).status
  }

  async #world(namespace: string | undefined): Promise<World> {
    const { engine, store, runningProcesses } = this.#deps
    const foreign = await this.#foreignIncarnations()
    const world = await lookAtWorld(engine.parts, {
      runningProcesses,
      ours: (seen) => this.#ours(namespace, foreign, seen),
      rows: () => store.totals(namespace, foreign),
      activeSubscriptions: () => this.subscriptions(namespace).length,
    })
    const filter = { statuses: ['stuck' as const], exceptIncarnations: foreign, ...(namespace !== undefined && { namespace }) }
    const { agents } = await store.list(filter)
    const named = new Set(world.open.map(({ scopeId }) => scopeId))
    // Those of whom all but the archive is gone: it is on no books.
    const archives = agents.flatMap(({ id }) => (named.has(id) ? [] : [`archive of agent ${id}: it could not be removed`]))
    return { ...world, status: { ...world.status, stuck: [...world.status.stuck, ...archives] } }
  }

  /** In a namespace count its own things, and those of which nobody can say whose they are: they may be its own (G4). */
  async #ours(namespace: string | undefined, foreign: ReadonlySet<string>, seen: readonly Seen[]): Promise<(one: Seen) => boolean> {
    const { engine, store, namespaces } = this.#deps
    const { host } = engine.parts
    // One that came since the books were read is foreign too.
    const isForeign = (id: string): boolean => foreign.has(id) || (id !== host.incarnationId && host.vitality(id) === 'alive')
    const others = new Set([...new Set(seen.map(({ incarnation }) => incarnation))].filter(isForeign))
    if (namespace === undefined) return ({ incarnation }) => !others.has(incarnation)
    const rows = await store.namespacesOf(seen.map(({ scopeId }) => scopeId))
    return ({ scopeId, incarnation, isRecorded }) => {
      if (others.has(incarnation)) return false
      const name = namespaces.nameOf(scopeId) ?? rows.get(scopeId)
      return name === undefined ? !isRecorded : name === namespace
    }
  }

  /** The status, and why it is not clean: each thing by its name. */
  async look(namespace: string | undefined): Promise<{ readonly status: Status; readonly issues: readonly string[] }> {
    const { store } = this.#deps
    const { status, processes, open } = await this.#world(namespace)
    if (status.isClean) return { status, issues: [] }
    const filter = {
      exceptIncarnations: await this.#foreignIncarnations(),
      limit: namedAtMost,
      ...(namespace !== undefined && { namespace }),
    }
    const { agents } = await store.list(filter)
    const issues = [
      ...agents.map(
        ({ id, type, status: how, session }) => `agent ${id} (${type}, ${how}) is on record with ${session.messageCount} messages`,
      ),
      ...andMore(status.agentCount - agents.length, 'agents'),
      ...named(processes, 'processes', ({ pid, resourceId }) => `process ${pid} of ${scopeOfResource(resourceId)} is running`),
      ...named(this.subscriptions(namespace), 'subscriptions', (name) => `${name} is active`),
      ...named(
        open,
        'resources',
        ({ kind, name, state, error }) => `${kind} ${name} is ${state}${error === undefined ? '' : `: ${error}`}`,
      ),
      ...status.leaks.map((leak) => `leak: ${leak}`),
    ]
    return { status, issues }
  }
}

/** When a reset has to answer. One that joins it may want that sooner (G6). */
class Deadline {
  readonly #clock: Clock
  #untilMs: number
  #advanced = Promise.withResolvers<void>()

  constructor(clock: Clock, untilMs: number) {
    this.#clock = clock
    this.#untilMs = untilMs
  }

  advance(untilMs: number): void {
    this.#untilMs = Math.min(this.#untilMs, untilMs)
    this.#advanced.resolve()
    this.#advanced = Promise.withResolvers()
  }

  async race<T>(work: Promise<T>, reserveMs = 0): Promise<Timed<T>> {
    const done = work.then((value) => ({ value }))
    for (;;) {
      const leftMs = Math.max(leastMs, this.#untilMs - this.#clock.now()) - reserveMs
      const winner = await within(this.#clock, leftMs, Promise.race([done, this.#advanced.promise]))
      if (winner.timedOut) return winner
      if (winner.value) return { timedOut: false, value: winner.value.value }
    }
  }
}

/** What a reset found besides the scopes of this life. */
interface Rest {
  readonly reports: Report[]
  agents: number
  messages: number
  readonly errors: string[]
}

function nothingLeft(): Rest {
  return { reports: [], agents: 0, messages: 0, errors: [] }
}

function inTime<T>(value: T): Timed<T> {
  return { timedOut: false, value }
}

function nameOf(namespace: string | undefined, engine: Engine): { kind: ScopeKind; id: string } {
  return namespace === undefined ? { kind: 'host', id: engine.hostScopeId } : { kind: 'namespace', id: namespace }
}

function sum(reports: readonly Report[], count: (report: Report) => number): number {
  return reports.reduce((total, report) => total + count(report), 0)
}

/** Each thing by its name, as far as there is room. */
function named<T>(things: readonly T[], what: string, describe: (thing: T) => string): readonly string[] {
  return [...things.slice(0, namedAtMost).map(describe), ...andMore(things.length - namedAtMost, what)]
}

function andMore(count: number, what: string): readonly string[] {
  return count > 0 ? [`${count} more ${what}`] : []
}
