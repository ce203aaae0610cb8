import { activeStatuses, finalStatuses } from '../domain/agent.ts'
import { sentence } from '../domain/errors.ts'
import { scopeOfResource } from '../domain/identity.ts'
import { forgets, type Trigger } from '../domain/policy.ts'
import type { Report } from '../domain/report.ts'
import type { ScopeKind, Wish } from '../domain/scope.ts'
import type { Engine } from '../engine/engine.ts'
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

/** A reset answers this long after its timeout at the latest; the rest of the five seconds is for the answer's own way. */
const killBudgetMs = 4_500

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
    const { namespaces } = this.#deps
    const { namespace } = options
    return await namespaces.reset(namespace, async () => {
      const report = await this.#closeAll(namespace, this.#resetWish(options))
      // An agent that went took its subscriptions with it; one may have come after that.
      this.dropSubscriptions(namespace)
      const { status, issues } = await this.look(namespace)
      return status.isClean ? report : { ...report, success: false, errors: [...report.errors, ...issues] }
    })
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

  async #closeAll(namespace: string | undefined, wish: Wish): Promise<Report> {
    const { engine } = this.#deps
    const { clock } = engine.parts
    const startedMs = clock.now()
    const startedAt = clock.wall()
    const reports = await Promise.all(this.#scopes(namespace).map((id) => engine.close(id, wish, { isPart: true })))
    if (forgets(wish)) reports.push(...(await this.#closeRecovered(namespace, wish)))
    const ended = forgets(wish) ? await this.#removeEnded(namespace) : { agents: 0, messages: 0, errors: [] }
    return {
      success: ended.errors.length === 0 && reports.every(({ success }) => success),
      trigger: wish.trigger,
      scope: nameOf(namespace, engine),
      startedAt,
      duration: Math.round((clock.now() - startedMs) * 10) / 10,
      cleanedAgentsCount: ended.agents + sum(reports, ({ cleanedAgentsCount }) => cleanedAgentsCount),
      cleanedMessagesCount: ended.messages + sum(reports, ({ cleanedMessagesCount }) => cleanedMessagesCount),
      resources: reports.flatMap(({ resources }) => resources),
      errors: [...ended.errors, ...reports.flatMap(({ errors }) => errors)],
      gaveUp: reports.flatMap(({ gaveUp }) => gaveUp),
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
  async #removeEnded(namespace: string | undefined): Promise<{ agents: number; messages: number; errors: readonly string[] }> {
    const { store, agents } = this.#deps
    const exceptIncarnations = await this.#foreignIncarnations()
    const gone = { agents: 0, messages: 0 }
    for (;;) {
      const filter = { statuses: finalStatuses, exceptIncarnations, limit: removedAtOnce, ...(namespace !== undefined && { namespace }) }
      const { agents: ended } = await store.list(filter)
      if (ended.length === 0) break
      try {
        const removed = await agents.removeEnded(ended)
        gone.agents += removed.agents
        gone.messages += removed.messages
      } catch (error) {
        return { ...gone, errors: [sentence(error)] }
      }
    }
    await store.removeOwners(namespace)
    return { ...gone, errors: [] }
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
