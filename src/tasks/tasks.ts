import { join } from 'node:path'
import type { Agents, Launched } from '../agents/agents.ts'
import type { Events } from '../agents/events.ts'
import type { Owners } from '../agents/owners.ts'
import type { LaunchRequest } from '../agents/preflight.ts'
import type { Run } from '../agents/run.ts'
import type { Caps, TaskLimits } from '../agents/settings.ts'
import { markIn, planWorkspace } from '../agents/workspace.ts'
import type { Engine } from '../core/engine/api.ts'
import { type Agent, hasEnded } from '../core/model/agent.ts'
import { EbbError, isEbbError, sentence } from '../core/model/errors.ts'
import type { Report } from '../core/model/report.ts'
import { type ProgressReport, priorities, type Task, taskName, workspaceFolder } from '../core/model/task.ts'
import { logKind, logLabel, type reportStreams } from '../core/ports/agent-log.ts'
import type { AgentStore } from '../core/ports/agents.ts'
import type { ReadLog } from '../core/ports/archives.ts'
import { isOfKind } from '../core/ports/kind.ts'
import type { TerminalPlace } from '../core/ports/placement.ts'
import type { ProcessDetails } from '../core/ports/process.ts'
import type { ProviderCatalogue } from '../core/ports/provider.ts'
import type { Runtime } from '../core/ports/runtime.ts'
import type { TaskStore } from '../core/ports/tasks.ts'
import { Callers } from './callers.ts'
import { verify } from './cleaning.ts'
import { Deployer } from './deployer.ts'
import { Roster, requireOrchestrator, requireSelf } from './roster.ts'
import { Silence } from './silence.ts'
import type { Member } from './task-agents.ts'
import * as types from './types.ts'
import { treeOf, viewOf } from './view.ts'

export interface TasksDeps extends Runtime {
  readonly engine: Engine
  readonly store: AgentStore
  readonly tasks: TaskStore
  readonly agents: Agents
  readonly owners: Owners
  readonly events: Events
  readonly catalogue: ProviderCatalogue
  readonly caps: Caps
  readonly limits: TaskLimits
  /** Called at each deployment. When it returns undefined, the agent gets no `ebb` MCP server. */
  readonly callback: () => types.Callback | undefined
  readonly processesOf: (agentId: string) => Promise<readonly ProcessDetails[]>
  readonly readLog: ReadLog
  readonly terminalOf: (agent: Agent) => TerminalPlace | undefined
  /** Checks the folder for a new workspace. Throws the reason when no workspace can be created in the folder. */
  readonly requireFolder: (path: string) => void
}

const longestText = 10_000
const longestWord = 200
const mostData = 65_536

/** Limits of one answer with an agent's output. */
const mostLines = 10_000
const mostBytes = 1_048_576

const listedAtMost = 200

/** The streams whose archives are in the task's workspace. */
const ownStreams = ['stdout', 'progress', 'findings']

/** Tasks: scopes with a workspace, into which agents are deployed and in which they report. */
export class Tasks implements types.TaskService {
  readonly #deps: TasksDeps
  readonly #roster: Roster
  readonly #callers: Callers
  readonly #silence: Silence
  readonly #deployer: Deployer

  constructor(deps: TasksDeps) {
    const { events, log } = deps
    this.#deps = deps
    this.#roster = new Roster(deps)
    this.#callers = new Callers(deps.tasks)
    this.#silence = new Silence(deps)
    const parts = { roster: this.#roster, callers: this.#callers, silence: this.#silence }
    this.#deployer = new Deployer({ ...deps, ...parts })
    for (const end of ['terminated', 'deleted'] as const) events.on(end, ({ agentId }) => this.#callers.revoke(agentId))
    events.on('adopted', ({ agent, run }) => {
      if (agent.taskId !== undefined)
        this.#adopted(run, agent.taskId).catch((error: unknown) =>
          log.warn('An adopted agent is not checked for silence, because its task could not be read.', {
            agent: agent.id,
            error: String(error),
          }),
        )
    })
  }

  callerOf(token: string): Promise<types.AgentCaller | undefined> {
    return this.#callers.find(token)
  }

  /** Loads the task of an adopted agent, and checks the agent for silence again if it can report. */
  async #adopted(run: Run, taskId: string): Promise<void> {
    if ((await this.#deps.tasks.heard(taskId)).get(run.id)?.canReport) this.#silence.watch(run, taskId)
    await this.#roster.enter({ taskId, caller: 'orchestrator' })
  }

  async create({ namespace, description, priority, base, cwd = base, caller }: types.CreateTask): Promise<Task> {
    requireOrchestrator(caller, 'create tasks')
    requireText('description', description)
    if (!priorities.includes(priority)) throw bad('priority', `one of ${priorities.join(', ')}`)
    const { engine, clock, newId, owners, tasks, requireFolder } = this.#deps
    requireFolder(base)
    requireFolder(cwd)
    const createdAt = clock.wall()
    const id = taskName(newId(), createdAt)
    const task: Task = { id, namespace, description, priority, base, workspace: join(base, workspaceFolder, id), cwd, createdAt }
    const known = await tasks.findFolder(base)
    const scopeId = await owners.open({ kind: 'task', namespace, id })
    try {
      await tasks.create(task)
      const scope = engine.inspect(scopeId)
      if (!scope) throw new EbbError('scope_closed', `The namespace ${namespace} was closed while the task was created; create it again.`)
      await engine.launch(scope, planWorkspace(task, known))
      const mark = markIn([...scope.resources.values()].map(({ intent }) => intent))
      if (mark !== undefined && JSON.stringify(mark) !== JSON.stringify(known)) await tasks.keepFolder(base, mark)
      return task
    } catch (error) {
      // Closing the scope removes its folders, its name and the task's row.
      await engine.close(scopeId, { trigger: 'launch-rollback' }, { isPart: true })
      throw error
    }
  }

  deploy(request: types.DeployAgent): Promise<types.Deployed> {
    return this.#deployer.deploy(request)
  }

  launch(request: LaunchRequest): Promise<Launched | undefined> {
    return this.#deployer.launch(request)
  }

  async progress(request: types.ReportProgress): Promise<types.ProgressTaken> {
    const { status, message, progress, caller } = request
    requireWord('status', status)
    requireText('message', message)
    if (!(progress >= 0 && progress <= 100)) throw bad('progress', 'a number from 0 to 100')
    const { member } = await this.#roster.member(request)
    const isOwn = requireSelf(caller, member)
    const at = this.#deps.clock.wall()
    const report: ProgressReport = { status, message, progress, at }
    const run = this.#reporting(member) ?? (await this.#refuse(member))
    // The farewell is recorded before the report is written, because a full disk must not keep a finished agent from ending.
    const by = types.isLastStatus(status) ? run.farewell({ status, message }) : undefined
    this.#write(member, 'progress', { timestamp: at, agent_id: member.name, status, message, progress })
    await this.#deps.tasks.keepProgress(member.id, report)
    return { isOwn, ...(by !== undefined && { cleanup: { scheduled: true as const, by } }) }
  }

  async finding(request: types.ReportFinding): Promise<types.FindingTaken> {
    const { findingType, severity, message, data, caller } = request
    requireWord('finding_type', findingType)
    requireWord('severity', severity)
    requireText('message', message)
    if (data !== undefined && Buffer.byteLength(JSON.stringify(data) ?? '') > mostData)
      throw bad('data', `at most ${mostData} bytes as JSON`)
    const { member } = await this.#roster.member(request)
    const isOwn = requireSelf(caller, member)
    const timestamp = this.#deps.clock.wall()
    if (!this.#reporting(member)) await this.#refuse(member)
    const finding = { finding_type: findingType, severity, message, ...(data !== undefined && { data }) }
    this.#write(member, 'findings', { timestamp, agent_id: member.name, ...finding })
    await this.#deps.tasks.countFinding(member.id)
    return { isOwn }
  }

  /**
   * Returns the run of an agent that may report: one that runs and is not being ended. The files of any other agent are archived or
   * being archived.
   */
  #reporting({ id }: Member): Run | undefined {
    const run = this.#deps.agents.living.get(id)
    return run?.signal.aborted ? undefined : run
  }

  async #refuse({ id, name }: Member): Promise<never> {
    const { agents, host } = this.#deps
    const { agent, incarnation } = await agents.get(id)
    if (hasEnded(agent)) throw new EbbError('agent_ended', `The agent ${name} has ended (${agent.status}) and can no longer report.`)
    if (incarnation === host.incarnationId) throw new EbbError('agent_ended', `The agent ${name} is being ended and can no longer report.`)
    throw new EbbError('agent_foreign', `The agent ${name} belongs to another Ebb process, which may have died; report there.`)
  }

  /**
   * Appends a line to a report file of an agent. It is synchronous, so that the agent cannot begin to end after the check. A
   * synthetic agent has no files: its report is in its row only.
   */
  #write({ id, name }: Member, stream: (typeof reportStreams)[number], line: object): void {
    this.#silence.reported(id)
    try {
      const scope = this.#deps.engine.inspect(id)
      const intents = [...(scope?.resources.values() ?? [])].map(({ intent }) => intent)
      const hasFile = intents.some((intent) => isOfKind(logKind, intent) && intent.spec.stream === stream)
      if (hasFile) scope?.handles.get(logLabel(stream)).append?.(JSON.stringify(line), this.#deps.caps.logBytes)
    } catch (cause) {
      if (isEbbError(cause, 'too_large')) throw cause
      throw new EbbError('report_unwritten', `The report of ${name} could not be written (${sentence(cause)}); report again.`, { cause })
    }
  }

  async status(request: types.OfTask): Promise<types.TaskView> {
    const { taskId } = request
    const { task, taskAgents } = await this.#roster.enter(request)
    const { store, tasks, agents, limits, caps } = this.#deps
    const [{ agents: rows }, reports, status] = await Promise.all([
      store.list({ taskId, namespace: task.namespace }),
      tasks.heard(taskId),
      this.#roster.statusOf(task),
    ])
    taskAgents.load(rows)
    const context = { taskAgents, reports, silence: (id: string) => this.#silence.of(id), terminalOf: this.#deps.terminalOf }
    const views = rows.toReversed().map((agent) => viewOf(agent, context))
    const active = rows.filter((agent) => !hasEnded(agent)).length
    const { deployed, ...plain } = task
    return {
      task: plain,
      status,
      agents: views,
      counts: {
        total: Math.max(deployed, views.length),
        active,
        completed: views.filter((view) => view.status === 'completed').length,
        stuck: views.filter((view) => view.stuck).length,
      },
      hierarchy: treeOf(views),
      limits: {
        taskConcurrent: { limit: limits.concurrent, used: taskAgents.present((id) => agents.living.has(id)).length },
        taskAgents: { limit: limits.agents, used: taskAgents.total },
        taskDepth: { limit: limits.depth, used: Math.max(0, ...views.map(({ depth }) => depth)) },
        maxAgents: { limit: caps.maxAgents, used: agents.living.size },
        spawnRules: limits.spawnRules.map(({ text }) => text),
        stuckThresholdMs: limits.stuckThresholdMs,
        stuckAction: limits.stuckAction,
      },
    }
  }

  async output(request: types.AgentOutput): Promise<types.OutputLines> {
    const { tail, since } = request
    const { member } = await this.#roster.member(request)
    await this.#deps.agents.get(member.id)
    const resources = await this.#deps.engine.resources(member.id)
    const log = resources.filter((resource) => isOfKind(logKind, resource)).find(({ spec }) => spec.stream === 'stdout')
    if (!log) return { lines: [], next: 0 }
    return await this.#deps.readLog({
      path: log.name,
      archive: log.spec.archive,
      ...(since !== undefined && { since }),
      ...(tail !== undefined && { tail }),
      maxLines: mostLines,
      maxBytes: mostBytes,
    })
  }

  async kill(request: types.KillAgent): Promise<types.Killed> {
    const { taskId, reason, cascade } = request
    if (reason !== undefined) requireText('reason', reason)
    const { taskAgents, member } = await this.#roster.memberToEnd(request)
    const { log, agents } = this.#deps
    log.info('An agent of a task is killed.', { agent: member.id, task: taskId, ...(reason !== undefined && { reason }) })
    if (cascade) taskAgents.markKilled(member.id)
    const below = cascade ? taskAgents.descendants(member.id).filter(({ id }) => agents.living.has(id)) : []
    const end = async ({ id, name }: Member) => ({ agent: { id, name }, cleanup: await this.#clean(id, true) })
    const [own, descendants] = await Promise.all([end(member), Promise.all(below.map(end))])
    const success = [own, ...descendants].every(({ cleanup }) => cleanup.success)
    return { ...own, ...(reason !== undefined && { reason }), success, descendants }
  }

  async cleanup(request: types.CleanupAgent): Promise<types.CleanupResult> {
    const { member } = await this.#roster.memberToEnd(request)
    return await this.#clean(member.id, request.keepLogs)
  }

  /** Ends an agent and verifies its end. For an agent that has ended already, the report of its first close is verified again. */
  async #clean(id: string, keepLogs: boolean): Promise<types.CleanupResult> {
    const { agents, processesOf, engine } = this.#deps
    const report = await agents.stop(id, keepLogs ? {} : { dropLogs: true }).catch(notReleased)
    const archivedFiles = async (): Promise<readonly string[]> =>
      (await agents.endedAgents.archivedFiles(id)).filter(({ stream }) => ownStreams.includes(stream)).map(({ path }) => path)
    return await verify({ engine, processesOf, archivedFiles }, id, report)
  }

  async complete(request: types.OfTask): Promise<types.Completed> {
    requireOrchestrator(request.caller, 'complete tasks')
    const { task } = await this.#roster.enter(request)
    const { owners, tasks, clock } = this.#deps
    const closing = await owners.close({ kind: 'task', namespace: task.namespace, id: task.id }, false)
    const report = await closing.report
    if (report.success) {
      await tasks.complete(task.id, clock.wall())
      this.#roster.forget(task.id)
    }
    const { deployed: _, ...plain } = (await tasks.find(task.id)) ?? task
    return { task: plain, report }
  }

  async list({ caller, namespace }: Omit<types.OfTask, 'taskId'>): Promise<readonly types.TaskSummary[]> {
    const { tasks, store } = this.#deps
    const own = caller === 'orchestrator' ? undefined : ((await store.find(caller.agentId))?.agent.taskId ?? '')
    const listed =
      own === undefined
        ? await tasks.list({ limit: listedAtMost, ...(namespace !== undefined && { namespace }) })
        : [await tasks.find(own)].filter((task) => task !== undefined)
    const counts = await tasks.count(listed.map(({ id }) => id))
    return await Promise.all(
      listed.map(async ({ deployed, ...task }) => ({
        task,
        status: await this.#roster.statusOf({ ...task, deployed }),
        agents: { total: deployed, active: counts.get(task.id) ?? 0 },
      })),
    )
  }
}

/** Returns the report of a failed close, so that the answer has that report instead of an error. Throws every other error. */
function notReleased(error: unknown): Report {
  if (isEbbError(error, 'not_released') && error.details) return error.details
  throw error
}

function requireText(what: string, text: string): void {
  if (text.length > longestText) throw bad(what, `at most ${longestText} characters`)
}

function requireWord(what: string, text: string): void {
  if (text === '' || text.length > longestWord) throw bad(what, `1 to ${longestWord} characters`)
}

function bad(path: string, must: string): EbbError {
  return new EbbError('invalid_request', `${path} must be ${must}.`, { details: [{ path, message: `must be ${must}` }] })
}
