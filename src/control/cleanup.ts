import { activeStatuses, finalStatuses } from '../domain/agent.ts'
import { sentence } from '../domain/errors.ts'
import { scopeOfResource } from '../domain/identity.ts'
import type { Trigger } from '../domain/policy.ts'
import type { Report } from '../domain/report.ts'
import type { ScopeKind, Wish } from '../domain/scope.ts'
import type { Engine } from '../engine/engine.ts'
import { type Timed, within } from '../engine/race.ts'
import { lookAtWorld, type Status, type World } from '../engine/status.ts'
import type { AgentStore } from '../ports/agents.ts'
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
  readonly #resets = new Map<string, Undertaken>()
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
    const { namespace } = options
    const key = namespace === undefined ? '*' : `namespace ${namespace}`
    const joined = this.#resets.get(key)
    if (joined) {
      if (options.force) for (const id of this.#scopes(namespace)) void engine.close(id, this.#resetWish(options), { isPart: true })
      return joined
    }
    const id = engine.parts.newId()
    const scope = nameOf(namespace, engine)
    const report = history.record(id, 'test-reset', scope, () => this.#resetAndLook(options)).finally(() => this.#resets.delete(key))
    const undertaken = { id, report }
    this.#resets.set(key, undertaken)
    report.catch(() => {})
    return undertaken
  }

  async #resetAndLook(options: ResetOptions): Promise<Report> {
    const { namespaces, engine } = this.#deps
    const { clock } = engine.parts
    const { namespace, timeoutMs = defaultResetMs } = options
    const untilMs = clock.now() + timeoutMs + answerBudgetMs
    const leftMs = (): number => Math.max(leastMs, untilMs - clock.now())
    return await namespaces.reset(namespace, async () => {
      const report = await this.#closeAll(namespace, this.#resetWish(options), leftMs)
      // An agent that went took its subscriptions with it; one may have come after that.
      this.dropSubscriptions(namespace)
      const issues = await this.#issues(namespace, leftMs())
      return issues.length === 0 ? report : { ...report, success: false, errors: [...report.errors, ...issues] }
    })
  }

  /** Why the world is not clean. One that cannot be looked at is not (G4). */
  async #issues(namespace: string | undefined, budgetMs: number): Promise<readonly string[]> {
    try {
      const looked = await within(this.#deps.engine.parts.clock, budgetMs, this.look(namespace))
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

  async #closeAll(namespace: string | undefined, wish: Wish, leftMs?: () => number): Promise<Report> {
    const { engine } = this.#deps
    const { clock } = engine.parts
    const startedMs = clock.now()
    const startedAt = clock.wall()
    const closing = Promise.all(this.#scopes(namespace).map((id) => engine.close(id, wish, { isPart: true })))
    const closed = await (leftMs ? within(clock, leftMs() - lookBudgetMs, closing) : closing.then(inTime))
    const ended = leftMs ? await this.#forgetRest(namespace, wish, leftMs()) : nothingLeft()
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
  async #forgetRest(namespace: string | undefined, wish: Wish, budgetMs: number): Promise<Rest> {
    const rest = nothingLeft()
    const over = new AbortController()
    const work = async (): Promise<void> => {
      rest.reports.push(...(await this.#closeRecovered(namespace, wish)))
      await this.#removeEnded(namespace, rest, over.signal)
    }
    try {
      const done = await within(this.#deps.engine.parts.clock, budgetMs, work())
      return done.timedOut ? { ...rest, errors: ['The database did not answer in time, so rows are left.'] } : rest
    } catch (error) {
      return { ...rest, errors: [sentence(error)] }
    } finally {
      over.abort()
    }
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
    const filter = { statuses: finalStatuses, exceptIncarnations, limit: removedAtOnce, ...(namespace !== undefined && { namespace }) }
    for (;;) {
      const { agents: ended } = await store.list(filter)
      // Who has ended since the reset answered is not its business.
      if (signal.aborted) return
      if (ended.length === 0) break
      const removed = await agents.removeEnded(ended)
      rest.agents += removed.agents
      rest.messages += removed.messages
    }
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
    const inside = namespace === undefined ? undefined : await this.#scopeIdsIn(namespace)
    return await lookAtWorld(engine.parts, {
      runningProcesses,
      isOurs: (scopeId, incarnation) => !foreign.has(incarnation) && (inside === undefined || inside.has(scopeId)),
      rows: () => store.totals(namespace, foreign),
      activeSubscriptions: () => this.subscriptions(namespace).length,
    })
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

  async #scopeIdsIn(namespace: string): Promise<ReadonlySet<string>> {
    const { engine, store } = this.#deps
    const { agents } = await store.list({ namespace })
    const scopes = this.#scopes(namespace).flatMap((id) => engine.parts.book.tree(id))
    return new Set([...agents, ...scopes].map(({ id }) => id))
  }
}

/** What a reset found besides the scopes of this life. */
interface Rest {
  readonly reports: Report[]
  agents: number
  messages: number
  readonly errors: readonly string[]
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
