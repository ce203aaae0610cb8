import type { Agents } from '../agents/agents.ts'
import type { Owners } from '../agents/owners.ts'
import { EbbError, isEbbError } from '../core/model/errors.ts'
import type { TaskStatus } from '../core/model/task.ts'
import type { AgentStore } from '../core/ports/agents.ts'
import type { TaskRecord, TaskStore } from '../core/ports/tasks.ts'
import { type Member, TaskAgents } from './task-agents.ts'
import type { AgentOfTask, Caller, OfTask } from './types.ts'

export interface RosterDeps {
  readonly store: AgentStore
  readonly tasks: TaskStore
  readonly owners: Owners
  readonly agents: Pick<Agents, 'living'>
}

export interface Place {
  readonly task: TaskRecord
  readonly taskAgents: TaskAgents
}

export interface FoundMember extends Pick<Place, 'taskAgents'> {
  readonly member: Member
}

/** How many tasks stay in memory. The agents of a forgotten task are loaded again on the next request. */
const tasksRemembered = 1_000

/** Finds tasks and their agents, and checks what a caller may do in a task. */
export class Roster {
  readonly #deps: RosterDeps
  readonly #taskAgentsById = new Map<string, Promise<TaskAgents>>()

  constructor(deps: RosterDeps) {
    this.#deps = deps
  }

  /** Returns the task and its agents. Throws `forbidden` for an agent of another task. */
  async enter({ taskId, caller, namespace }: OfTask): Promise<Place> {
    const task = await this.#task(taskId, namespace)
    const taskAgents = await this.#taskAgents(task)
    if (caller !== 'orchestrator' && !(await this.#find(taskAgents, task, caller.agentId)))
      throw new EbbError('forbidden', `You were not deployed into the task ${taskId}; an agent may act only in its own task.`)
    return { task, taskAgents }
  }

  async #task(taskId: string, namespace: string | undefined): Promise<TaskRecord> {
    const task = await this.#deps.tasks.find(taskId)
    if (!task) this.#taskAgentsById.delete(taskId)
    if (!task || (namespace !== undefined && task.namespace !== namespace))
      throw new EbbError('task_not_found', `There is no task ${JSON.stringify(taskId)}; create one first, or list the tasks.`)
    return task
  }

  async #taskAgents(task: TaskRecord): Promise<TaskAgents> {
    const known = this.#taskAgentsById.get(task.id)
    const taskAgents = known ?? this.#load(new TaskAgents(task.deployed), task)
    // A completed task gets no new agents, so it is not kept in memory.
    if (task.completedAt !== undefined) return await taskAgents
    // Swallowed: the caller gets the failure of the load, and the next call loads again.
    if (!known) taskAgents.catch(() => this.#taskAgentsById.delete(task.id))
    // Moves the task to the end of the map: the least recently used is forgotten first.
    this.#taskAgentsById.delete(task.id)
    this.#taskAgentsById.set(task.id, taskAgents)
    if (this.#taskAgentsById.size > tasksRemembered) await this.#forgetOldest()
    return await taskAgents
  }

  async #forgetOldest(): Promise<void> {
    for (const [id, taskAgents] of this.#taskAgentsById) {
      // Swallowed: the caller that started the load gets its failure.
      const known = await taskAgents.catch(() => undefined)
      if (!known || known.present((member) => this.#deps.agents.living.has(member)).length > 0) continue
      this.#taskAgentsById.delete(id)
      return
    }
  }

  async #load(taskAgents: TaskAgents, { id, namespace }: TaskRecord): Promise<TaskAgents> {
    taskAgents.load((await this.#deps.store.list({ taskId: id, namespace })).agents)
    return taskAgents
  }

  /** Drops the agents of a task from memory when the task is completed. */
  forget(taskId: string): void {
    this.#taskAgentsById.delete(taskId)
  }

  async member(request: AgentOfTask): Promise<FoundMember> {
    const { task, taskAgents } = await this.enter(request)
    const member = await this.#find(taskAgents, task, request.agentId)
    if (!member) throw noAgent(task.id, request.agentId)
    return { taskAgents, member }
  }

  /** Finds an agent in order to end it. A running agent is found in memory, whatever the state of the database (G12). */
  async memberToEnd(request: AgentOfTask): Promise<FoundMember> {
    const { taskId, agentId, caller, namespace } = request
    const taskAgents = await this.#taskAgentsById.get(taskId)
    const member = taskAgents?.find(agentId)
    const run = member && this.#deps.agents.living.get(member.id)
    const isRunning = run && (namespace === undefined || namespace === run.namespace)
    const found = taskAgents && member && isRunning ? { taskAgents, member } : await this.member(request)
    requireAuthority(caller, found.taskAgents, found.member)
    return found
  }

  /** Finds an agent by its name or id. For an unknown name the agents are loaded again, because another process may have deployed it. */
  async #find(taskAgents: TaskAgents, task: TaskRecord, nameOrId: string): Promise<Member | undefined> {
    return taskAgents.find(nameOrId) ?? (await this.#load(taskAgents, task)).find(nameOrId)
  }

  async statusOf({ id, namespace }: TaskRecord): Promise<TaskStatus> {
    try {
      const { state } = await this.#deps.owners.find({ kind: 'task', namespace, id })
      return state === 'open' ? 'active' : state === 'closing' ? 'closing' : 'completed'
    } catch (error) {
      if (isEbbError(error, 'request_not_found')) return 'completed'
      throw error
    }
  }
}

export function noAgent(taskId: string, nameOrId: string): EbbError {
  return new EbbError(
    'agent_not_found',
    `There is no agent ${JSON.stringify(nameOrId)} in the task ${taskId}; get_real_task_status lists them.`,
  )
}

/** Refuses agents an operation that only the orchestrator may call. */
export function requireOrchestrator(caller: Caller, what: string): void {
  if (caller !== 'orchestrator') throw new EbbError('forbidden', `An agent may not ${what}; only the orchestrator may.`)
}

/** Returns true when the caller is the agent itself, and false for the orchestrator. Throws for other agents. */
export function requireSelf(caller: Caller, { id, name }: Member): boolean {
  if (caller === 'orchestrator') return false
  if (caller.agentId !== id) throw new EbbError('forbidden', `Only ${name} may report for ${name}; report with your own agent_id.`)
  return true
}

export function requireParent(caller: Caller, parent: Member | undefined): void {
  if (caller !== 'orchestrator' && caller.agentId !== parent?.id)
    throw new EbbError('forbidden', 'An agent may deploy only its own children; give your own agent_id as the parent.')
}

/** An agent may end only itself and its descendants. */
function requireAuthority(caller: Caller, taskAgents: TaskAgents, { id, name }: Member): void {
  if (caller === 'orchestrator' || caller.agentId === id) return
  if (!taskAgents.descendants(caller.agentId).some((descendant) => descendant.id === id))
    throw new EbbError('forbidden', `${name} is not one of your descendants; an agent may end only itself and its descendants.`)
}
