import { type Engine, othersRecoveryMs, type ScopeView } from '../core/engine/api.ts'
import { rollbackOf, rolledBack } from '../core/engine/launch.ts'
import { noop } from '../core/engine/race.ts'
import { type Agent, type AgentResult, hasEnded, type KeptConfiguration } from '../core/model/agent.ts'
import type { CloseRequest } from '../core/model/close-request.ts'
import { EbbError, notReleased } from '../core/model/errors.ts'
import type { Report } from '../core/model/report.ts'
import { agentName } from '../core/model/task.ts'
import { logLabels } from '../core/ports/agent-log.ts'
import type { AgentEnd, AgentFilter, AgentPage, AgentRecord, AgentStore } from '../core/ports/agents.ts'
import type { Archives } from '../core/ports/archives.ts'
import type { Handles } from '../core/ports/handles.ts'
import { defaultPlacement, isRemotePlacement } from '../core/ports/placement.ts'
import type { PreparedRow } from '../core/ports/prepared-row.ts'
import { sessionLabel, treeLabel } from '../core/ports/process.ts'
import type { Configuration, Provider, Script } from '../core/ports/provider.ts'
import type { Runtime } from '../core/ports/runtime.ts'
import { EndedAgents } from './ended-agents.ts'
import type { AgentEndings } from './endings.ts'
import type { Events } from './events.ts'
import { Limiter } from './limiter.ts'
import type { Namespaces } from './namespaces.ts'
import type { Owners } from './owners.ts'
import { play } from './player.ts'
import { type LaunchRequest, Preflight, type PreflightDeps, type Prepared } from './preflight.ts'
import { farewellMs, Run } from './run.ts'
import { sourceOf } from './source.ts'
import { messageId } from './stream/message-id.ts'
import type { Stream } from './stream/stream.ts'

export interface Launched {
  readonly agent: Agent
  readonly run: Run
}

export interface AgentsDeps extends PreflightDeps, Runtime {
  readonly engine: Engine
  readonly store: AgentStore
  readonly stream: Stream
  readonly events: Events
  readonly endings: AgentEndings
  readonly namespaces: Namespaces
  readonly owners: Owners
  readonly archives: Archives
}

/** The most launches that run at the same time. Node starts a process synchronously, so more launches would only block the event loop. */
const launchesAtOnce = 4

/** Launches, stops and deletes the agents of this supervisor. A row records only what was observed on the system. */
export class Agents {
  readonly endedAgents: EndedAgents
  readonly #deps: AgentsDeps
  readonly #runs = new Map<string, Run>()
  /** Ids of accepted launches that have no `Run` yet. */
  readonly #pendingLaunches = new Set<string>()
  readonly #limiter = new Limiter(launchesAtOnce)
  readonly #preflight: Preflight

  constructor(deps: AgentsDeps) {
    this.#deps = deps
    this.#preflight = new Preflight(deps)
    this.endedAgents = new EndedAgents(deps)
  }

  get living(): ReadonlyMap<string, Run> {
    return this.#runs
  }

  /** A launch is a transaction: one that cannot start is refused before anything exists, and one that fails half-way is rolled back. */
  async launch(request: LaunchRequest): Promise<Launched> {
    return await this.#deps.namespaces.launching(request.namespace, () => this.#launch(request))
  }

  async #launch(original: LaunchRequest): Promise<Launched> {
    // Launches that wait for their turn count as agents too.
    this.#preflight.requireRoom(this.#runs.size + this.#pendingLaunches.size)
    const id = original.id ?? this.#deps.newId()
    // A terminal is named after its agent, so the agent needs a name.
    const isNameless =
      original.name === undefined && this.#deps.placementTable.get(original.placement ?? defaultPlacement)?.hasTerminal === true
    const request = isNameless ? { ...original, name: agentName(original.type, id, this.#deps.clock.wall()) } : original
    this.#pendingLaunches.add(id)
    try {
      const prepared = await this.#preflight.prepare(id, request)
      const parentId = await this.#owner(request)
      // The limiter comes before the scope, so that a waiting launch holds no resources.
      const start = (): Promise<Launched> => this.#start(id, parentId, request, prepared)
      return await (isRemotePlacement(this.#deps.placementTable, request.placement) ? start() : this.#limiter.pass(start))
    } finally {
      this.#pendingLaunches.delete(id)
    }
  }

  async #start(id: string, parentId: string, request: LaunchRequest, prepared: Prepared): Promise<Launched> {
    const { engine, caps, clock, namespaces } = this.#deps
    const { provider, script, plan } = prepared
    this.#pendingLaunches.delete(id)
    // The room for one more agent is checked again, because the disk may have filled while the launch waited.
    this.#preflight.requireRoom(this.#runs.size)
    namespaces.remember(id, request.namespace)
    const scope = engine.openScope({ id, kind: 'agent', parentId })
    const run = this.#begin(scope, request)
    try {
      const createdAt = clock.wall()
      const handles = await engine.launch(scope, plan, [this.#newRow(id, request, createdAt)])
      await run.started(clock.wall())
      // The agent may have failed while its row was written, so its start is checked again.
      await handles.find(sessionLabel)?.requireGoodStart()
      const record = await this.get(id)
      this.#deps.events.emit('created', { agent: record.agent })
      run.announced()
      run.watchTime(request.configuration.timeout ?? caps.timeoutMs, request.configuration.idleTimeout ?? caps.idleMs)
      this.#watch(run, handles, request, provider)
      this.#play(run, provider, script)
      return { agent: record.agent, run }
    } catch (error) {
      // The engine rolls back a launch that fails inside the engine. A failure outside of it, such as of the row, is rolled back here.
      const report = rollbackOf(error) ?? (await engine.close(id, { trigger: 'launch-rollback' }, { isPart: true }))
      this.#forgetRun(id)
      // When the rollback is not proven, the row stays, and the agent's resources stay in the ledger until they are gone.
      if (report.success) await this.#deps.store.remove([id])
      throw rolledBack(error, report)
    }
  }

  /** The scope that owns the new agent: its task, else its request, else its namespace. */
  async #owner({ namespace, taskId, requestId, ownerScopeId }: LaunchRequest): Promise<string> {
    const { owners, namespaces } = this.#deps
    if (ownerScopeId !== undefined) return ownerScopeId
    namespaces.enter(namespace)
    if (taskId !== undefined) return await owners.enter({ kind: 'task', namespace, id: taskId })
    if (requestId !== undefined) return await owners.enter({ kind: 'request', namespace, id: requestId })
    return namespaces.enter(namespace)
  }

  #begin(scope: ScopeView, request: Pick<LaunchRequest, 'namespace'>): Run {
    const { engine, clock, store, events, endings } = this.#deps
    const { id } = scope
    const run: Run = new Run(id, request.namespace, scope.signal, {
      clock,
      change: (change) => store.change(id, change),
      onStatus: (status) => run.notify(() => events.emit('status', { agentId: id, namespace: request.namespace, status })),
      onEnd: (end, isForgotten) => this.#ended(run, end, isForgotten),
      // Swallowed: a close that fails shows in the agent's status, and the reaper repeats it.
      close: (closeRequest) => void engine.close(id, closeRequest).catch(noop),
    })
    this.#runs.set(id, run)
    endings.living.set(id, run)
    return run
  }

  #newRow(id: string, request: LaunchRequest, createdAt: string): PreparedRow {
    const { host, store } = this.#deps
    return store.newAgent(
      {
        id,
        ...(request.name !== undefined && { name: request.name }),
        type: request.type,
        placement: request.placement ?? defaultPlacement,
        namespace: request.namespace,
        ...(request.requestId !== undefined && { requestId: request.requestId }),
        ...(request.taskId !== undefined && { taskId: request.taskId }),
        ...(request.parentAgentId !== undefined && { parentAgentId: request.parentAgentId }),
        prompt: request.prompt,
        configuration: keptConfiguration(request.configuration),
        ...(request.tokenHash !== undefined && { tokenHash: request.tokenHash }),
        incarnation: host.incarnationId,
        createdAt,
      },
      { id: messageId(id, 'prompt', 0, 0), type: 'user', role: 'user', content: request.prompt },
    )
  }

  /** Follows the output of an agent that runs, and watches for its exit. */
  #watch(run: Run, handles: Handles, request: LaunchRequest, provider: Provider): void {
    const tree = handles.find(treeLabel)
    if (!tree) return
    const { caps, stream } = this.#deps
    const limits = { limitBytes: request.configuration.limits?.logBytes ?? caps.logBytes, limitMessages: caps.messages }
    for (const label of logLabels) {
      const log = handles.get(label)
      log.done()
      // When a close of the agent has begun meanwhile, that close reads the log to its end.
      if (run.signal.aborted) continue
      stream.follow(sourceOf({ agentId: run.id, stream: label, path: log.path, offset: 0, ...limits }, provider))
    }
    run.watchExit(tree.pid, tree.exit)
    const session = handles.find(sessionLabel)
    if (session) run.watchSession(session.lost)
  }

  #play(run: Run, provider: Provider, script: Script): void {
    if (script.events.length === 0) return
    const { stream, clock, log } = this.#deps
    play({ run, provider, events: script.events, stream, clock }).catch((error: unknown) =>
      log.error('The schedule of a synthetic agent could not be played.', { agent: run.id, error: String(error) }),
    )
  }

  /** Takes over an agent that outlived its supervisor, and continues to read its output where the earlier supervisor stopped. */
  async resume(record: AgentRecord, scope: ScopeView, pid: number | undefined): Promise<void> {
    const { caps, stream, store, namespaces, catalogue } = this.#deps
    const { agent } = record
    const { handles } = scope
    const { limits, timeout, idleTimeout } = agent.session.configuration
    namespaces.remember(agent.id, agent.namespace)
    const run = this.#begin(scope, agent)
    const { clock } = this.#deps
    const aliveMs = Math.max(0, Date.parse(clock.wall()) - Date.parse(agent.startedAt ?? agent.createdAt))
    run.resumed(agent, aliveMs)
    const positions = await store.positions(agent.id)
    for (const label of logLabels) {
      const log = handles.get(label)
      const offset = positions.find((position) => position.stream === label)?.offset ?? 0
      const where = { agentId: agent.id, stream: label, path: log.path, offset }
      const most = { limitBytes: limits?.logBytes ?? caps.logBytes, limitMessages: caps.messages }
      stream.follow(sourceOf({ ...where, ...most }, catalogue.find(agent.type)))
    }
    run.watchTime(Math.max(1, (timeout ?? caps.timeoutMs) - aliveMs), idleTimeout ?? caps.idleMs)
    this.#resumeResult(run, record.result)
    const session = handles.find(sessionLabel)
    const body = session ?? handles.get(treeLabel)
    run.watchExit(pid, body.exit)
    if (session) run.watchSession(session.lost)
    this.#deps.events.emit('adopted', { agent, run })
  }

  /**
   * Restores the result or the last report (farewell) of an adopted agent. A farewell keeps the exit deadline that the agent was
   * promised.
   */
  #resumeResult(run: Run, result: AgentResult | undefined): void {
    const farewell = result?.farewell
    const nowMs = Date.parse(this.#deps.clock.wall())
    if (farewell) run.farewell(farewell, Math.min(farewellMs, Math.max(0, Date.parse(farewell.by) - nowMs)))
    else if (result) run.lastWord(result)
  }

  /** Emits the end of an agent after the ledger has recorded that end. The events follow the public order (docs/in-depth/server.md). */
  #ended(run: Run, end: AgentEnd | undefined, isForgotten: boolean): void {
    const { events, log } = this.#deps
    const { id, namespace } = run
    this.#forgetRun(id)
    // A launch that failed, or whose namespace was reset meanwhile, never emitted `created`. So `notify` drops its other events too.
    run.notify(() => {
      this.#emitEnd(run, end)
      if (isForgotten) events.emit('deleted', { agentId: id, namespace })
    })
    log.info('An agent has ended.', { scope: id, status: end?.status ?? 'gone' })
  }

  #emitEnd({ id, namespace, startedMs, messageCount }: Run, end: AgentEnd | undefined): void {
    if (!end) return
    const { events, clock } = this.#deps
    const duration = Math.round(clock.now() - startedMs)
    if (end.error) events.emit('error', { agentId: id, error: end.error })
    if (end.status !== 'terminated') {
      const status = end.status === 'completed' ? 'success' : 'failed'
      events.emit('complete', { agentId: id, result: { status, duration, messageCount } })
    }
    events.emit('status', { agentId: id, namespace, status: end.status })
    events.emit('terminated', { agentId: id, namespace, exitCode: end.exit?.code ?? null, duration })
  }

  #forgetRun(id: string): void {
    this.#runs.delete(id)
    this.#deps.endings.living.delete(id)
    this.#deps.stream.leave(id)
  }

  async get(id: string): Promise<AgentRecord> {
    const record = await this.#deps.store.find(id)
    if (!record) throw new EbbError('agent_not_found', `There is no agent ${id}; it may have been deleted.`)
    return record
  }

  list(filter: AgentFilter): Promise<AgentPage> {
    return this.#deps.store.list(filter)
  }

  /** Ends an agent, with proof. For an agent that has ended it returns the report of the first close. `dropLogs` deletes all its logs. */
  async stop(id: string, options: { readonly force?: boolean; readonly graceMs?: number; readonly dropLogs?: boolean }): Promise<Report> {
    const { engine } = this.#deps
    // An agent that this process owns is ended whatever the state of the database (G12).
    const first = engine.owns(id) ? undefined : (await this.#recovered(id)).report
    const report = first ?? (await engine.close(id, { trigger: 'terminated', ...options }))
    // If the agent ended by itself, its own close kept its logs. Then the archive is deleted here.
    return options.dropLogs && report.success ? ((await this.#dropArchive(id)) ?? report) : report
  }

  /**
   * Deletes the archive of an ended agent. The ledger has no record of that archive. When the deletion fails, the agent's scope is
   * reopened as closing. The reaper, the close of the agent's task and the next start then try again, and the scope is visible
   * until the archive is gone (G11). Returns the report of the close that failed.
   */
  async #dropArchive(id: string): Promise<Report | undefined> {
    const { engine, namespaces } = this.#deps
    const problem = await this.endedAgents.dropArchive(id)
    if (problem === undefined) return undefined
    const closeRequest: CloseRequest = { trigger: 'terminated', dropLogs: true }
    try {
      const { agent } = await this.get(id)
      engine.reopen(id, (await this.#openTaskOf(agent)) ?? namespaces.enter(agent.namespace), closeRequest)
    } catch {
      // The scope cannot be reopened: its namespace is being reset, or the database does not answer.
      throw this.endedAgents.notReleased(id, 'terminated', problem)
    }
    return await engine.close(id, closeRequest)
  }

  async #openTaskOf({ taskId, namespace }: Agent): Promise<string | undefined> {
    const { engine, store } = this.#deps
    const owner = taskId === undefined ? undefined : await store.findOwner('task', namespace, taskId)
    return owner && engine.inspect(owner.scopeId)?.state === 'open' ? owner.scopeId : undefined
  }

  /** Deletes the archive of an agent that has ended. Its row and its messages stay. */
  async dropLogs(id: string): Promise<void> {
    const { agent } = await this.get(id)
    if (!hasEnded(agent)) throw new EbbError('invalid_request', `The agent ${id} has not ended; stop it first, or stop it with dropLogs.`)
    const left = await this.#dropArchive(id)
    if (left) throw this.endedAgents.notReleased(id, 'terminated', left.errors.join('; '))
  }

  /** Deletes an agent with its rows. When its release cannot be proven in time it throws `not_released`, and the row stays. */
  async remove(id: string, options: { readonly force?: boolean; readonly deadlineMs?: number }): Promise<void> {
    const { engine, store } = this.#deps
    if (!engine.owns(id)) await this.#recovered(id)
    if (engine.owns(id)) {
      const report = await engine.close(id, { trigger: 'deleted', forget: true, ...options })
      if (!report.success) throw notReleased(report, `agent ${id}`)
    }
    // If the agent ended by itself just before the deletion, its row and archive still exist.
    const left = await store.find(id)
    if (!left) return
    const [problem] = (await this.endedAgents.remove([left.agent])).errors
    if (problem !== undefined) throw this.endedAgents.notReleased(id, 'deleted', problem)
  }

  /**
   * Returns the record of an agent that this process may act on. Only the incarnation that owns a scope may act on it. When that
   * incarnation is dead, the agent is recovered first: after that it has ended, or this process owns it.
   */
  async #recovered(id: string): Promise<AgentRecord> {
    const record = await this.get(id)
    const { engine, host } = this.#deps
    if (hasEnded(record.agent) || record.incarnation === host.incarnationId) return record
    if (host.vitality(record.incarnation) !== 'dead')
      throw new EbbError('agent_foreign', `The agent ${id} belongs to another running Ebb process (${record.incarnation}); end it there.`)
    const { errors } = await engine.recover({ waitMs: othersRecoveryMs })
    const now = await this.get(id)
    if (!hasEnded(now.agent) && !engine.owns(id)) {
      const reason = errors.length > 0 ? errors.join(' ') : `The agent ${id} is still being recovered by another process; try again.`
      throw this.endedAgents.notReleased(id, 'terminated', reason)
    }
    return now
  }
}

/** The part of the configuration that is stored and returned to clients: never environment values or instructions. */
function keptConfiguration(configuration: Configuration): KeptConfiguration {
  const { workingDirectory, conversationName, metadata, sessionId, model, limits, timeout, idleTimeout } = configuration
  return {
    ...(workingDirectory !== undefined && { workingDirectory }),
    ...(conversationName !== undefined && { conversationName }),
    ...(metadata !== undefined && { metadata }),
    ...(sessionId !== undefined && { sessionId }),
    ...(model !== undefined && { model }),
    ...(limits !== undefined && { limits }),
    ...(timeout !== undefined && { timeout }),
    ...(idleTimeout !== undefined && { idleTimeout }),
  }
}
