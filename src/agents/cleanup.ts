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

export interface CleanupDeps extends Pick<Runtime, 'clock' | 'newId' | 'host'> {
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

/** Another process, such as a sentinel, may be recovering what a reset is to take away: so long it is waited for. */
const recoveryBudgetMs = 3_000

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
    const { engine, history, clock, newId } = this.#deps
    const { namespace, timeoutMs = defaultResetMs } = options
    const key = namespace === undefined ? '*' : `namespace ${namespace}`
    const untilMs = clock.now() + timeoutMs + answerBudgetMs
    const joined = this.#resets.get(key)
    if (joined) {
      joined.deadline.advance(untilMs)
      const closing = this.#scopes(namespace).filter((id) => engine.closeOf(id))
      for (const id of closing) engine.close(id, this.#resetRequest(options), { isPart: true }).catch(noop)
      return joined
    }
    const id = newId()
    const about = { id, trigger: 'test-reset', ...whereOf(namespace, engine) } as const
    const deadline = new Deadline(clock, untilMs)
    const work = (progress: Progress): Promise<Report> => this.#resetAndLook(options, deadline, progress)
    const report = history.record(about, work).finally(() => this.#resets.delete(key))
    const undertaken = { id, report, deadline }
    this.#resets.set(key, undertaken)
    report.catch(noop)
    return undertaken
  }

  async #resetAndLook(options: ResetOptions, deadline: Deadline, progress: Progress): Promise<Report> {
    const { namespaces } = this.#deps
    const { namespace } = options
    return await namespaces.reset(namespace, async () => {
      const report = await this.#closeAll(namespace, this.#resetRequest(options), progress, deadline)
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

  #resetRequest({ force, timeoutMs = defaultResetMs }: ResetOptions): CloseRequest {
    return { trigger: 'test-reset', forget: true, graceMs: timeoutMs, deadlineMs: timeoutMs + killBudgetMs, ...(force && { force }) }
  }

  /** Everything of a namespace, or of all, for another reason than a reset: rows and archives are kept. */
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
    const rest = deadline ? this.#rest(namespace, closeRequest, partOf, deadline) : undefined
    const closed = await (deadline ? deadline.race(closing, lookBudgetMs) : closing.then(inTime))
    const ended = (await rest?.forget()) ?? nothingLeft()
    const reports = [...(closed.timedOut ? [] : closed.value), ...ended.reports]
    const errors = [...(closed.timedOut ? ['Not everything was closed in time; it goes on.'] : []), ...ended.errors]
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
   * Agents that are not of this life, or were over before. Those go beside the close, which may take all of its time for one thing
   * that is stuck. Nothing is waited for without end: neither what does not go, nor a database that does not answer.
   */
  #rest(namespace: string | undefined, closeRequest: CloseRequest, partOf: Progress, deadline: Deadline): { forget(): Promise<Rest> } {
    const { engine, store } = this.#deps
    const rest = nothingLeft()
    const over = new AbortController()
    // Of whom the book knows nothing more, everything has been told.
    const isTold = (id: string): boolean => !engine.owns(id)
    const begun = this.#removeEnded(namespace, rest, over.signal, isTold).catch(noop)
    const recover = async (): Promise<void> => {
      rest.reports.push(...(await this.#closeRecovered(namespace, closeRequest, partOf, deadline)))
    }
    const remove = async (): Promise<void> => {
      await begun
      rest.errors.push(...(await this.#removeEnded(namespace, rest, over.signal)))
      if (!over.signal.aborted) await store.removeOwners(namespace)
    }
    const bounded = async (work: Promise<void>, tooLate: string, reserveMs?: number): Promise<void> => {
      try {
        if ((await deadline.race(work, reserveMs)).timedOut) rest.errors.push(tooLate)
      } catch (error) {
        rest.errors.push(sentence(error))
      }
    }
    const forget = async (): Promise<Rest> => {
      await bounded(recover(), 'What supervisors that died have left was not closed in time; it goes on.', lookBudgetMs)
      await bounded(remove(), 'The database, or an archive, did not answer in time, so rows are left.')
      over.abort()
      return rest
    }
    return { forget }
  }

  /** Agents of supervisors that died are over after a recovery, or are ours to end, with what it could not release. */
  async #closeRecovered(
    namespace: string | undefined,
    closeRequest: CloseRequest,
    partOf: Progress,
    deadline: Deadline,
  ): Promise<readonly Report[]> {
    const { engine, store } = this.#deps
    await engine.recover({ waitMs: Math.min(recoveryBudgetMs, deadline.leftMs - lookBudgetMs) })
    const exceptIncarnations = await this.#deps.engine.otherIncarnations()
    const { agents: left } = await store.list({
      statuses: activeStatuses,
      exceptIncarnations,
      ...(namespace !== undefined && { namespace }),
    })
    // What is still there of this life has had its close in this very reset.
    const tried = new Set(this.#scopes(namespace).flatMap((id) => engine.inspectTree(id).map((scope) => scope.id)))
    const ours = left.filter(({ id }) => engine.owns(id) && !tried.has(id))
    const reports = await Promise.all(ours.map(({ id }) => engine.close(id, closeRequest, { partOf })))
    // With its last scope an incarnation leaves the books.
    if (ours.length > 0) await engine.recover()
    return reports
  }

  /** Agents that were over before: their archives and rows. Another living ebb's are its own. Says what is left, and why. */
  async #removeEnded(
    namespace: string | undefined,
    rest: Rest,
    signal: AbortSignal,
    isWanted: (id: string) => boolean = () => true,
  ): Promise<readonly string[]> {
    const { store, agents } = this.#deps
    const exceptIncarnations = await this.#deps.engine.otherIncarnations()
    // Also those that were to be deleted before, and are stuck since.
    const filter = {
      statuses: [...finalStatuses, 'stuck' as const],
      exceptIncarnations,
      limit: removedAtOnce,
      ...(namespace !== undefined && { namespace }),
    }
    const errors: string[] = []
    // Page by page, because what cannot be removed stays.
    let cursor: string | undefined
    do {
      const page = await store.list({ ...filter, ...(cursor !== undefined && { cursor }) })
      // Who has ended since the reset answered is not its business.
      if (signal.aborted) break
      const removed = await agents.endedAgents.remove(page.agents.filter((agent) => hasEnded(agent) && isWanted(agent.id)))
      rest.agents += removed.agents
      rest.messages += removed.messages
      errors.push(...removed.errors)
      cursor = page.nextCursor
    } while (cursor !== undefined)
    return errors
  }

  /** Counted in the world, not in the ledger alone. What belongs to another living ebb is not ours to count. */
  async status(namespace: string | undefined): Promise<Status> {
    return (await this.#world(namespace)).status
  }

  async #world(namespace: string | undefined): Promise<SystemObservation> {
    const { engine, store, runningProcesses } = this.#deps
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
      activeSubscriptions: () => this.subscriptions(namespace).length,
    })
  }

  /** The agents whose last close said that something of them is left, and what. */
  #unclean(namespace: string | undefined): readonly { readonly id: string; readonly errors: string[] }[] {
    const { engine, namespaces } = this.#deps
    return [...engine.scopes()].flatMap(({ id, kind, report }) => {
      const isOurs = kind === 'agent' && (namespace === undefined || namespaces.nameOf(id) === namespace)
      return isOurs && report?.success === false ? [{ id, errors: [...report.errors] }] : []
    })
  }

  /** In a namespace count its own things, and those of which nobody can say whose they are: they may be its own (G4). */
  async #ours(namespace: string | undefined, foreign: ReadonlySet<string>, seen: readonly Seen[]): Promise<(one: Seen) => boolean> {
    const { host, store, namespaces } = this.#deps
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
      exceptIncarnations: await this.#deps.engine.otherIncarnations(),
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

function whereOf(namespace: string | undefined, engine: Engine): Pick<CombinedClose, 'scope' | 'namespace'> {
  return { scope: nameOf(namespace, engine), ...(namespace !== undefined && { namespace }) }
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
