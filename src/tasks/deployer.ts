import type { Agents, Launched } from '../agents/agents.ts'
import type { Owners } from '../agents/owners.ts'
import type { LaunchRequest } from '../agents/preflight.ts'
import type { TaskLimits } from '../agents/settings.ts'
import { markIn } from '../agents/workspace.ts'
import type { Engine } from '../core/engine/api.ts'
import { noop } from '../core/engine/race.ts'
import type { Agent } from '../core/model/agent.ts'
import { EbbError, isEbbError } from '../core/model/errors.ts'
import type { Report } from '../core/model/report.ts'
import { orchestrator } from '../core/model/spawn-rule.ts'
import { agentName, agentTypePattern, workspaceFolder } from '../core/model/task.ts'
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
import { tmuxSessionOf } from './view.ts'

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
}

/** A deployment that passed all checks. */
interface Order {
  readonly request: DeployAgent
  readonly task: TaskRecord
  readonly taskAgents: TaskAgents
  readonly member: Member
  readonly parentName: string
  /** The stored mark of the shared workspace folder. */
  readonly knownMark: unknown
  readonly scopeId: string
}

/** Deploys agents into tasks: checks the request and the limits, and joins concurrent requests for the same agent. */
export class Deployer {
  readonly #deps: DeployerDeps
  readonly #deployments = new Deployments()

  constructor(deps: DeployerDeps) {
    this.#deps = deps
  }

  async deploy(request: DeployAgent): Promise<Deployed> {
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
    // The task's current scope only: a reset deletes the task, and entering must not create it again.
    const scopeId = await this.#deps.owners.existing({ kind: 'task', namespace: task.namespace, id: task.id })
    const knownMark = await this.#deps.tasks.findFolder(task.base)
    if (signal?.aborted) throw cancelled()

    // No await from here to the reservation, so that concurrent deployments see each other's reservations.
    const key = keyOf(agentType, parent?.id, request.prompt)
    const place = `${task.id} ${key}`
    const same = request.allowDuplicate ? undefined : (this.#deployments.join(place, signal) ?? this.#living(taskAgents, key))
    if (same) return answer(task, await same, true)
    const member = this.#member(taskAgents, agentType, parent, key)
    requireRoom(this.#deps.limits, taskAgents, member, (id) => this.#deps.agents.living.has(id))
    taskAgents.reserve(member)
    const order: Order = { request, task, taskAgents, member, parentName: parent?.name ?? orchestrator, knownMark, scopeId }
    return answer(task, await this.#deployments.begin(place, signal, (cancellation) => this.#launch(order, cancellation)), false)
  }

  async launch(request: LaunchRequest): Promise<Agent> {
    const { taskId, namespace, parentAgentId: parent = orchestrator, type, prompt, placement = 'process', configuration } = request
    const task = taskId === undefined ? undefined : await this.#deps.tasks.find(taskId)
    // The task id is a label of the client, not a task of this namespace: launch without deploying.
    if (task?.namespace !== namespace) return (await this.#deps.agents.launch(request)).agent
    const { agent } = await this.deploy({
      taskId: task.id,
      namespace,
      agentType: type,
      prompt,
      parent,
      provider: type,
      placement,
      // `POST /api/agents` always creates a new agent.
      allowDuplicate: true,
      configuration,
      ...(request.requestId !== undefined && { requestId: request.requestId }),
      caller: 'orchestrator',
    })
    return agent
  }

  #living(taskAgents: TaskAgents, key: string): Promise<Agent> | undefined {
    const { agents } = this.#deps
    for (const { id, key: its } of taskAgents.members) {
      const status = its === key ? agents.living.get(id)?.status : undefined
      if (status === 'initializing' || status === 'running') return agents.get(id).then(({ agent }) => agent)
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

  async #launch(order: Order, cancellation: AbortSignal): Promise<Agent> {
    const { engine, agents, callers, silence } = this.#deps
    const { request, task, taskAgents, member } = order
    const rollBack = (): void => {
      // A launch without a scope yet is rolled back by `#keepIfWanted`. Swallowed: that call proves the removal or reports it.
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
      return launched.agent
    } catch (error) {
      taskAgents.giveUp(member)
      callers.revoke(member.id)
      throw error
    } finally {
      cancellation.removeEventListener('abort', rollBack)
    }
  }

  /** Removes an agent that all callers cancelled, or whose parent was killed. The error is `cancelled` only if the removal is proven. */
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
      const isLeft = isEbbError(error, 'launch_failed') && (error.details as Report | undefined)?.success !== true
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
    // Only programs with MCP support get the server; a command finds it in the file named by EBB_MCP_CONFIG.
    const canCallBack = provider?.capabilities.mcpSupport || provider?.type === 'command'
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

  /** Stores the deployment's count and folder mark. The agent runs already, so a failure is only logged. */
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

function answer(task: TaskRecord, agent: Agent, isDeduplicated: boolean): Deployed {
  return { agent, isDeduplicated, workspace: task.workspace, ...tmuxSessionOf(agent) }
}
