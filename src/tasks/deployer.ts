import type { Agents, Launched } from '../agents/agents.ts'
import type { Owners } from '../agents/owners.ts'
import type { LaunchRequest } from '../agents/preflight.ts'
import type { TaskLimits } from '../agents/settings.ts'
import { markIn } from '../agents/workspace.ts'
import type { Engine } from '../core/engine/api.ts'
import { noop } from '../core/engine/race.ts'
import type { Agent } from '../core/model/agent.ts'
import { EbbError, isEbbError } from '../core/model/errors.ts'
import type { Inode } from '../core/model/identity.ts'
import { orchestrator } from '../core/model/spawn-rule.ts'
import { agentName, agentTypePattern, workspaceFolder } from '../core/model/task.ts'
import { defaultPlacement, type TerminalPlace } from '../core/ports/placement.ts'
import type { ProviderCatalogue } from '../core/ports/provider.ts'
import type { Runtime } from '../core/ports/runtime.ts'
import type { TaskRecord, TaskStore } from '../core/ports/tasks.ts'
import type { Callers } from './callers.ts'
import { cancelled, Deployments } from './deployments.ts'
import { parentKilled, requireRoom } from './limits.ts'
import { preambleOf } from './preamble.ts'
import { noAgent, type Roster, requireParent } from './roster.ts'
import type { Silence } from './silence.ts'
import { keyOf, type Member, type TaskAgents } from './task-agents.ts'
import type { Callback, DeployAgent, Deployed } from './types.ts'

export interface DeployerDeps extends Runtime {
  readonly engine: Engine
  readonly agents: Agents
  readonly tasks: TaskStore
  readonly owners: Owners
  readonly catalogue: ProviderCatalogue
  readonly limits: TaskLimits
  readonly roster: Roster
  readonly callers: Callers
  readonly silence: Silence
  readonly callback: () => Callback | undefined
  readonly terminalOf: (agent: Agent) => TerminalPlace | undefined
}

/** A deployment that passed all checks. */
interface Order {
  readonly request: DeployAgent
  readonly task: TaskRecord
  readonly taskAgents: TaskAgents
  readonly member: Member
  readonly parentName: string
  /** The stored mark of the shared workspace folder. */
  readonly knownMark: Inode | undefined
  readonly scopeId: string
}

/** A request that is allowed, with what its launch needs. */
interface Checked {
  readonly request: DeployAgent
  readonly task: TaskRecord
  readonly taskAgents: TaskAgents
  readonly parent: Member | undefined
  readonly knownMark: Inode | undefined
  readonly scopeId: string
}

/** A deployment that was begun for a request, or a running one that the request has joined. */
interface Begun {
  readonly task: TaskRecord
  readonly launching: Promise<Launched>
  readonly isDeduplicated: boolean
}

/** Deploys agents into tasks: checks the request and the limits, and joins concurrent requests for the same agent. */
export class Deployer {
  readonly #deps: DeployerDeps
  readonly #deployments = new Deployments()

  constructor(deps: DeployerDeps) {
    this.#deps = deps
  }

  async deploy(request: DeployAgent): Promise<Deployed> {
    const { task, launching, isDeduplicated } = await this.#begin(request)
    const { agent } = await launching
    const terminal = this.#deps.terminalOf(agent)
    return { agent, isDeduplicated, workspace: task.workspace, ...(terminal && { terminal }) }
  }

  /**
   * Launches a new agent into its task, with the task's limits. Returns undefined when the task id names no task of the namespace:
   * the id is then only a label.
   */
  async launch(request: LaunchRequest): Promise<Launched | undefined> {
    const { taskId, namespace, parentAgentId: parent = orchestrator, type, prompt, placement = defaultPlacement, configuration } = request
    const task = taskId === undefined ? undefined : await this.#deps.tasks.find(taskId)
    if (task?.namespace !== namespace) return undefined
    const { launching } = await this.#begin({
      taskId: task.id,
      namespace,
      agentType: type,
      prompt,
      parent,
      provider: type,
      placement,
      allowDuplicate: true,
      configuration,
      ...(request.requestId !== undefined && { requestId: request.requestId }),
      caller: 'orchestrator',
    })
    return await launching
  }

  /** Checks a request, then joins a deployment of the same agent or begins a new one. */
  async #begin(request: DeployAgent): Promise<Begun> {
    const { agentType, caller, signal } = request
    // Spawn rules use the name `orchestrator` for the caller that is no agent.
    if (agentType === orchestrator)
      throw new EbbError('invalid_request', `"${orchestrator}" is reserved and cannot be an agent type; use another one.`)
    if (!agentTypePattern.test(agentType))
      throw new EbbError(
        'invalid_request',
        `${JSON.stringify(agentType)} cannot be an agent type; use letters, digits, _ and - (at most 48), with a letter or digit first.`,
      )
    const { task, taskAgents } = await this.#deps.roster.enter(request)
    const parent = request.parent === orchestrator ? undefined : taskAgents.find(request.parent)
    if (!parent && request.parent !== orchestrator) throw noAgent(task.id, request.parent)
    requireParent(caller, parent)
    // Only the task's current scope is used. A reset deletes the task, and a deployment must not create the task again.
    const scopeId = await this.#deps.owners.existing({ kind: 'task', namespace: task.namespace, id: task.id })
    const knownMark = await this.#deps.tasks.findFolder(task.base)
    if (signal?.aborted) throw cancelled()

    return { task, ...this.#reserve({ request, task, taskAgents, parent, knownMark, scopeId }) }
  }

  /**
   * Joins a deployment of the same agent, or checks the limits and takes a place in the task. Synchronous, so that of many requests at
   * once each sees the places that the ones before it have taken.
   */
  #reserve({ request, task, taskAgents, parent, knownMark, scopeId }: Checked): Omit<Begun, 'task'> {
    const { agentType, signal } = request
    const key = keyOf(agentType, parent?.id, request.prompt)
    const place = `${task.id} ${key}`
    const same = request.allowDuplicate ? undefined : (this.#deployments.join(place, signal) ?? this.#living(taskAgents, key))
    if (same) return { launching: same, isDeduplicated: true }
    const member = this.#member(taskAgents, agentType, parent, key)
    requireRoom(this.#deps.limits, taskAgents, member, (id) => this.#deps.agents.living.has(id))
    taskAgents.reserve(member)
    const order: Order = { request, task, taskAgents, member, parentName: parent?.name ?? orchestrator, knownMark, scopeId }
    const launching = this.#deployments.begin(place, signal, (cancellation) => this.#launch(order, cancellation))
    return { launching, isDeduplicated: false }
  }

  #living(taskAgents: TaskAgents, key: string): Promise<Launched> | undefined {
    const { agents } = this.#deps
    for (const { id, key: its } of taskAgents.members) {
      const run = its === key ? agents.living.get(id) : undefined
      if (run?.status === 'initializing' || run?.status === 'running') return agents.get(id).then(({ agent }) => ({ agent, run }))
    }
    return undefined
  }

  #member(taskAgents: TaskAgents, agentType: string, parent: Member | undefined, key: string): Member {
    const { newId, clock } = this.#deps
    for (;;) {
      const id = newId()
      const name = agentName(agentType, id, clock.wall())
      if (!taskAgents.hasName(name)) return { id, name, agentType, parentId: parent?.id, depth: (parent?.depth ?? 0) + 1, key }
    }
  }

  async #launch(order: Order, cancellation: AbortSignal): Promise<Launched> {
    const { engine, agents, callers, silence } = this.#deps
    const { request, task, taskAgents, member } = order
    const rollBack = (): void => {
      // A launch without a scope yet is rolled back by `#keepIfWanted`. Swallowed: `#keepIfWanted` proves the removal or reports
      // the failure.
      if (engine.owns(member.id)) engine.close(member.id, { trigger: 'launch-rollback' }).catch(noop)
    }
    cancellation.addEventListener('abort', rollBack, { once: true })
    try {
      request.onPhase?.('prepared')
      const launchRequest = this.#requestFor(order)
      const launched = await this.#keepIfWanted(agents.launch(launchRequest), member, taskAgents, cancellation)
      taskAgents.arrive(member)
      // Only an agent that can report is checked for silence.
      if (launchRequest.tokenHash !== undefined) silence.watch(launched.run, task.id)
      await this.#record(order)
      request.onPhase?.('running')
      return launched
    } catch (error) {
      taskAgents.giveUp(member)
      callers.revoke(member.id)
      throw error
    } finally {
      cancellation.removeEventListener('abort', rollBack)
    }
  }

  /**
   * Returns a launched agent that is still wanted. Removes one that all callers cancelled, or whose parent was killed. The error is
   * `cancelled` only if the removal is proven.
   */
  async #keepIfWanted(
    launching: Promise<Launched>,
    { id, parentId }: Member,
    taskAgents: TaskAgents,
    cancellation: AbortSignal,
  ): Promise<Launched> {
    try {
      const launched = await launching
      if (!cancellation.aborted && !taskAgents.isKilled(parentId)) return launched
    } catch (error) {
      const isLeft = isEbbError(error, 'launch_failed') && error.details?.success !== true
      throw cancellation.aborted && !isLeft ? cancelled() : error
    }
    await this.#deps.agents.remove(id, { force: true }).catch((error: unknown) => {
      if (!isEbbError(error, 'agent_not_found')) throw error
    })
    throw cancellation.aborted ? cancelled() : parentKilled()
  }

  #requestFor({ request, task, member, parentName, knownMark, scopeId }: Order): LaunchRequest {
    const { callers, callback, catalogue } = this.#deps
    const provider = catalogue.find(request.provider)
    const canCallBack = provider?.capabilities.mcpSupport || provider?.mayCallBack
    const back = canCallBack ? callback() : undefined
    const token = back && callers.issue(member.id)
    const { configuration = {}, requestId } = request
    const otherServers = configuration.mcp?.servers.filter(({ name }) => name !== 'ebb') ?? []
    const env = token && { EBB_URL: back.url, EBB_TOKEN: token.text }
    const servers = env && [...otherServers, { name: 'ebb', command: back.command, args: ['mcp'], env, isOurs: true }]
    return {
      id: member.id,
      name: member.name,
      type: request.provider,
      prompt: request.prompt,
      preamble: preambleOf({ task, name: member.name, parent: parentName, canCallBack: servers !== undefined }),
      placement: request.placement,
      namespace: task.namespace,
      taskId: task.id,
      ...(requestId !== undefined && { requestId }),
      ownerScopeId: scopeId,
      ...(member.parentId !== undefined && { parentAgentId: member.parentId }),
      workspace: { base: task.base, path: `${workspaceFolder}/${task.id}`, known: knownMark },
      ...(token && { tokenHash: token.hash }),
      configuration: {
        workingDirectory: task.cwd,
        ...configuration,
        ...(request.command && { command: request.command }),
        ...(request.model !== undefined && { model: request.model }),
        ...(servers && { mcp: { ...configuration.mcp, servers } }),
      },
    }
  }

  /** Counts the deployment in its task, and stores the mark of the shared folder. The agent runs already, so a failure is only logged. */
  async #record({ task, member, knownMark }: Order): Promise<void> {
    const { engine, log, tasks } = this.#deps
    try {
      const held = engine.inspect(member.id)?.resources.values()
      const resources = held ? [...held].map(({ intent }) => intent) : await engine.resources(member.id)
      const mark = markIn(resources)
      const isNews = mark !== undefined && JSON.stringify(mark) !== JSON.stringify(knownMark)
      await Promise.all([tasks.countDeployed(task.id), isNews ? tasks.keepFolder(task.base, mark) : undefined])
    } catch (error) {
      log.warn('A deployment could not be recorded in the database.', { agent: member.id, task: task.id, error: String(error) })
    }
  }
}
