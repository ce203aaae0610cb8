import type { CombinedClose, Engine, Seen, Status, SystemObservation } from '../core/engine/api.ts'
import type { Progress } from '../core/engine/progress.ts'
import { noop, type Timed } from '../core/engine/race.ts'
import { activeStatuses, finalStatuses, hasEnded, stuckArchives } from '../core/model/agent.ts'
import type { CloseRequest, Trigger } from '../core/model/close-request.ts'
import { sentence } from '../core/model/errors.ts'
import { scopeOfResource } from '../core/model/identity.ts'
import type { Report } from '../core/model/report.ts'
import type { ScopeKind } from '../core/model/scope.ts'
import type { AgentStore } from '../core/ports/agents.ts'
import type { TreeMember } from '../core/ports/process.ts'
import type { Runtime } from '../core/ports/runtime.ts'
import type { Agents } from './agents.ts'
import { Deadline } from './deadline.ts'
import type { History } from './history.ts'
import type { Namespaces } from './namespaces.ts'
import { isRunningProbe } from './probe.ts'
import type { Subscriptions } from './subscriptions.ts'

export interface CleanupDeps extends Pick<Runtime, 'clock' | 'newId' | 'host'> {
  readonly engine: Engine
  readonly store: AgentStore
  readonly agents: Agents
  readonly namespaces: Namespaces
  readonly history: History
  readonly subscriptions: Subscriptions
  readonly runningProcesses: () => Promise<readonly TreeMember[]>
}

export interface ResetOptions {
  /** The namespace to reset. Absent: every namespace of this supervisor. */
  readonly namespace?: string
  readonly force?: boolean
  /** The time for the polite and terminate steps of all agents together. What still exists after this time is killed. */
  readonly timeoutMs?: number
}

export interface Undertaken {
  /** The id of the reset in the history. */
  readonly id: string
  readonly report: Promise<Report>
}

/** How many ended agents one transaction removes. */
const removedAtOnce = 200

/** How many items of each type, such as leaks, are listed when the system is not clean. The others are counted. */
const listedAtMost = 20

const defaultResetMs = 10_000

/** The time for the kill step after the timeout of a reset. */
const killBudgetMs = 3_800

/**
 * How long after its timeout a reset answers at the latest, also when the database hangs. The remaining part of the promised 5 s is
 * for sending the answer.
 */
const answerBudgetMs = 4_600

/** The part of `answerBudgetMs` for removing rows and for the final observation. */
const observationBudgetMs = 400

/** How long a reset waits at most for another process, such as a sentinel, that recovers a dead supervisor. */
const recoveryBudgetMs = 3_000

/** Closes several scopes together, and checks whether the system is clean. */
export class Cleanup {
  readonly #deps: CleanupDeps
  readonly #resets = new Map<string, Undertaken & { readonly deadline: Deadline }>()

  constructor(deps: CleanupDeps) {
    this.#deps = deps
  }

  /**
   * Resets one namespace or all. Concurrent resets of the same namespace join into one: the stronger request wins, and all callers
   * get the same report.
   */
  reset(options: ResetOptions): Undertaken {
    const { engine, history, clock, newId } = this.#deps
    const { namespace, timeoutMs = defaultResetMs } = options
    const key = namespace === undefined ? '*' : `namespace ${namespace}`
    const untilMs = clock.now() + timeoutMs + answerBudgetMs
    const joined = this.#resets.get(key)
    if (joined) {
      joined.deadline.advance(untilMs)
      const closing = this.#scopes(namespace).filter((id) => engine.closeOf(id))
      // Swallowed: the joined reset waits for these closes and reports their failures.
      for (const id of closing) engine.close(id, this.#resetRequest(options), { isPart: true }).catch(noop)
      return joined
    }
    const id = newId()
    const about = { id, trigger: 'test-reset', ...whereOf(namespace, engine) } as const
    const deadline = new Deadline(clock, untilMs)
    const work = (progress: Progress): Promise<Report> => this.#resetAndVerify(options, deadline, progress)
    const report = history.record(about, work).finally(() => this.#resets.delete(key))
    const undertaken = { id, report, deadline }
    this.#resets.set(key, undertaken)
    // Swallowed: a caller that does not wait for the report must not cause an unhandled rejection.
    report.catch(noop)
    return undertaken
  }

  async #resetAndVerify(options: ResetOptions, deadline: Deadline, progress: Progress): Promise<Report> {
    const { namespaces, subscriptions } = this.#deps
    const { namespace } = options
    return await namespaces.reset(namespace, async () => {
      const report = await this.#closeAll(namespace, this.#resetRequest(options), progress, deadline)
      // The removal of an agent ends its subscriptions, but a client may have subscribed again after that.
      subscriptions.drop(namespace)
      const issues = await this.#issues(namespace, deadline)
      return issues.length === 0 ? report : { ...report, success: false, errors: [...report.errors, ...issues] }
    })
  }

  /** Why the system is not clean. A failed observation counts as not clean (G4). */
  async #issues(namespace: string | undefined, deadline: Deadline): Promise<readonly string[]> {
    try {
      const seen = await deadline.race(this.look(namespace))
      if (seen.timedOut) return ['The check whether the system is clean did not finish in time.']
      const { status, issues } = seen.value
      return status.isClean || issues.length > 0 ? issues : ['The system is not clean.']
    } catch (error) {
      return [`The check whether the system is clean failed: ${sentence(error)}`]
    }
  }

  #resetRequest({ force, timeoutMs = defaultResetMs }: ResetOptions): CloseRequest {
    return { trigger: 'test-reset', forget: true, graceMs: timeoutMs, deadlineMs: timeoutMs + killBudgetMs, ...(force && { force }) }
  }

  /** Closes everything in one namespace or in all, without a reset: rows and archives are kept. */
  closeNamespace(namespace: string | undefined, trigger: Trigger, force: boolean): Promise<Report> {
    const { engine, history, newId } = this.#deps
    const closeRequest: CloseRequest = { trigger, ...(force && { force }) }
    const about = { id: newId(), trigger, ...whereOf(namespace, engine) }
    return history.record(about, (progress) => this.#closeAll(namespace, closeRequest, progress))
  }

  #scopes(namespace: string | undefined): readonly string[] {
    return this.#deps.namespaces.scopesOf(namespace)
  }

  async #closeAll(namespace: string | undefined, closeRequest: CloseRequest, partOf: Progress, deadline?: Deadline): Promise<Report> {
    const { engine, clock } = this.#deps
    const startedMs = clock.now()
    const startedAt = clock.wall()
    const closing = Promise.all(this.#scopes(namespace).map((id) => engine.close(id, closeRequest, { partOf })))
    const records = deadline ? this.#removeRecords(namespace, closeRequest, partOf, deadline) : undefined
    const closed = await (deadline ? deadline.race(closing, observationBudgetMs) : closing.then(inTime))
    const ended = (await records?.finish()) ?? noRecordCleanup()
    const reports = [...(closed.timedOut ? [] : closed.value), ...ended.reports]
    const errors = [...(closed.timedOut ? ['Not everything was closed in time; the close continues.'] : []), ...ended.errors]
    return {
      success: errors.length === 0 && reports.every(({ success }) => success),
      trigger: closeRequest.trigger,
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

  /**
   * Removes agents that had ended before the reset, and agents of dead supervisors. The removal begins at once, beside the close,
   * because the close may use all of the reset's time for one stuck resource. Every wait has a deadline, also when the database
   * does not answer.
   */
  #removeRecords(
    namespace: string | undefined,
    closeRequest: CloseRequest,
    partOf: Progress,
    deadline: Deadline,
  ): { finish(): Promise<RecordCleanup> } {
    const { engine, store } = this.#deps
    const cleanup = noRecordCleanup()
    const over = new AbortController()
    // An agent that is not in the engine's scope registry has emitted all its events, so its row may be removed.
    const hasSettled = (id: string): boolean => !engine.owns(id)
    // Swallowed: `remove` below repeats the removal and reports the errors.
    const begun = this.#removeEnded(namespace, cleanup, over.signal, hasSettled).catch(noop)
    const recover = async (): Promise<void> => {
      cleanup.reports.push(...(await this.#closeRecovered(namespace, closeRequest, partOf, deadline)))
    }
    const remove = async (): Promise<void> => {
      await begun
      cleanup.errors.push(...(await this.#removeEnded(namespace, cleanup, over.signal)))
      if (!over.signal.aborted) await store.removeOwners(namespace)
    }
    const bounded = async (work: Promise<void>, tooLate: string, reserveMs?: number): Promise<void> => {
      try {
        if ((await deadline.race(work, reserveMs)).timedOut) cleanup.errors.push(tooLate)
      } catch (error) {
        cleanup.errors.push(sentence(error))
      }
    }
    const finish = async (): Promise<RecordCleanup> => {
      await bounded(recover(), 'Agents of dead supervisors were not closed in time; the close continues.', observationBudgetMs)
      await bounded(remove(), 'The database, or the removal of an archive, did not answer in time, so rows are left.')
      over.abort()
      return cleanup
    }
    return { finish }
  }

  /** Recovers dead supervisors. After that, each of their agents has ended, or this process owns it and closes what is left of it. */
  async #closeRecovered(
    namespace: string | undefined,
    closeRequest: CloseRequest,
    partOf: Progress,
    deadline: Deadline,
  ): Promise<readonly Report[]> {
    const { engine, store } = this.#deps
    await engine.recover({ waitMs: Math.min(recoveryBudgetMs, deadline.leftMs - observationBudgetMs) })
    const exceptIncarnations = await this.#deps.engine.otherIncarnations()
    const { agents: left } = await store.list({
      statuses: activeStatuses,
      exceptIncarnations,
      ...(namespace !== undefined && { namespace }),
    })
    // This reset has already closed, or tried to close, the scopes of this process that still exist.
    const tried = new Set(this.#scopes(namespace).flatMap((id) => engine.inspectTree(id).map((scope) => scope.id)))
    const ours = left.filter(({ id }) => engine.owns(id) && !tried.has(id))
    const reports = await Promise.all(ours.map(({ id }) => engine.close(id, closeRequest, { partOf })))
    // A dead incarnation leaves the ledger when its last scope is gone. The closes above may have ended that scope, so recover again.
    if (ours.length > 0) await engine.recover()
    return reports
  }

  /**
   * Removes archives and rows of ended agents, except agents of other running Ebb processes. Returns one error for each agent that
   * is left.
   */
  async #removeEnded(
    namespace: string | undefined,
    cleanup: RecordCleanup,
    signal: AbortSignal,
    isWanted: (id: string) => boolean = () => true,
  ): Promise<readonly string[]> {
    const { store, agents } = this.#deps
    const exceptIncarnations = await this.#deps.engine.otherIncarnations()
    // The status `stuck` is included, because it also marks agents whose earlier deletion failed.
    const filter = {
      statuses: [...finalStatuses, 'stuck' as const],
      exceptIncarnations,
      limit: removedAtOnce,
      ...(namespace !== undefined && { namespace }),
    }
    const errors: string[] = []
    // The list is read with a cursor, because an agent that cannot be removed stays in the list.
    let cursor: string | undefined
    do {
      const page = await store.list({ ...filter, ...(cursor !== undefined && { cursor }) })
      // An aborted signal means that the reset has answered. Agents that end after the answer are kept.
      if (signal.aborted) break
      const removed = await agents.endedAgents.remove(page.agents.filter((agent) => hasEnded(agent) && isWanted(agent.id)))
      cleanup.agents += removed.agents
      cleanup.messages += removed.messages
      errors.push(...removed.errors)
      cursor = page.nextCursor
    } while (cursor !== undefined)
    return errors
  }

  /** Counts what exists on the system, not only what the ledger has. Resources of other running Ebb processes are left out. */
  async status(namespace: string | undefined): Promise<Status> {
    return (await this.#observe(namespace)).status
  }

  async #observe(namespace: string | undefined): Promise<SystemObservation> {
    const { engine, store, runningProcesses, subscriptions } = this.#deps
    const foreign = await this.#deps.engine.otherIncarnations()
    const filter = { statuses: ['stuck' as const], exceptIncarnations: foreign, ...(namespace !== undefined && { namespace }) }
    return await engine.look({
      runningProcesses,
      isPart: namespace !== undefined,
      ours: (seen) => this.#ours(namespace, foreign, seen),
      rows: () => store.totals(namespace, foreign),
      stuckAgents: async () => {
        const left = stuckArchives((await store.list(filter)).agents)
        for (const { id, errors } of this.#unclean(namespace)) left.set(id, errors)
        return left
      },
      activeSubscriptions: () => subscriptions.names(namespace).length,
    })
  }

  /** The agents whose last close failed, with the errors of that close. */
  #unclean(namespace: string | undefined): readonly { readonly id: string; readonly errors: string[] }[] {
    const { engine, namespaces } = this.#deps
    return [...engine.scopes()].flatMap(({ id, kind, report }) => {
      const isOurs = kind === 'agent' && (namespace === undefined || namespaces.nameOf(id) === namespace)
      return isOurs && report?.success === false ? [{ id, errors: [...report.errors] }] : []
    })
  }

  /**
   * Returns a test for whether a resource counts for a namespace. The namespace's own resources count, and unrecorded resources
   * whose namespace is unknown (G4).
   */
  async #ours(namespace: string | undefined, foreign: ReadonlySet<string>, seen: readonly Seen[]): Promise<(resource: Seen) => boolean> {
    const { host, store, namespaces, engine } = this.#deps
    // A supervisor that registered after the ledger was read is foreign too.
    const isForeign = (id: string): boolean => foreign.has(id) || (id !== host.incarnationId && host.vitality(id) === 'alive')
    const others = new Set([...new Set(seen.map(({ incarnation }) => incarnation))].filter(isForeign))
    if (namespace === undefined)
      return ({ scopeId, incarnation }) =>
        !others.has(incarnation) && !(incarnation === host.incarnationId && isRunningProbe(engine, scopeId))
    const rows = await store.namespacesOf(seen.map(({ scopeId }) => scopeId))
    return ({ scopeId, incarnation, isRecorded }) => {
      if (others.has(incarnation)) return false
      const name = namespaces.nameOf(scopeId) ?? rows.get(scopeId)
      return name === undefined ? !isRecorded : name === namespace
    }
  }

  /** Returns whether the system is clean, and names everything that makes it not clean. */
  async look(namespace: string | undefined): Promise<{ readonly status: Status; readonly issues: readonly string[] }> {
    const { store, subscriptions } = this.#deps
    const { status, processes, open } = await this.#observe(namespace)
    if (status.isClean) return { status, issues: [] }
    const filter = {
      exceptIncarnations: await this.#deps.engine.otherIncarnations(),
      limit: listedAtMost,
      ...(namespace !== undefined && { namespace }),
    }
    const { agents } = await store.list(filter)
    const issues = [
      ...agents.map(
        ({ id, type, status: how, session }) => `agent ${id} (${type}, ${how}) is on record with ${session.messageCount} messages`,
      ),
      ...andMore(status.agentCount - agents.length, 'agents'),
      ...listed(processes, 'processes', ({ pid, resourceId }) => `process ${pid} of ${scopeOfResource(resourceId)} is running`),
      ...listed(subscriptions.names(namespace), 'subscriptions', (name) => `${name} is active`),
      ...listed(
        open,
        'resources',
        ({ kind, name, state, error }) => `${kind} ${name} is ${state}${error === undefined ? '' : `: ${error}`}`,
      ),
      ...status.leaks.map((leak) => `leak: ${leak}`),
    ]
    return { status, issues }
  }
}

/** The results of a reset besides those of its own scopes: reports of the closes of recovered agents, and counts of removed records. */
interface RecordCleanup {
  readonly reports: Report[]
  agents: number
  messages: number
  readonly errors: string[]
}

function noRecordCleanup(): RecordCleanup {
  return { reports: [], agents: 0, messages: 0, errors: [] }
}

function inTime<T>(value: T): Timed<T> {
  return { timedOut: false, value }
}

function nameOf(namespace: string | undefined, engine: Engine): { kind: ScopeKind; id: string } {
  return namespace === undefined ? { kind: 'host', id: engine.hostScopeId } : { kind: 'namespace', id: namespace }
}

function whereOf(namespace: string | undefined, engine: Engine): Pick<CombinedClose, 'scope' | 'namespace'> {
  return { scope: nameOf(namespace, engine), ...(namespace !== undefined && { namespace }) }
}

function sum(reports: readonly Report[], count: (report: Report) => number): number {
  return reports.reduce((total, report) => total + count(report), 0)
}

/** Describes each item, up to the limit `listedAtMost`, and counts the others. */
function listed<T>(things: readonly T[], what: string, describe: (thing: T) => string): readonly string[] {
  return [...things.slice(0, listedAtMost).map(describe), ...andMore(things.length - listedAtMost, what)]
}

function andMore(count: number, what: string): readonly string[] {
  return count > 0 ? [`${count} more ${what}`] : []
}
