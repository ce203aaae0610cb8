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

/** Crews that nobody is in are learned again when somebody asks. */
const tasksRemembered = 1_000

/** Which tasks there are, who is in them, and what those who ask may do there. */
export class Roster {
  readonly #deps: RosterDeps
  readonly #taskAgentsById = new Map<string, Promise<TaskAgents>>()

  constructor(deps: RosterDeps) {
    this.#deps = deps
  }

  /** The task, for somebody who may see it. */
  async enter({ taskId, caller, namespace }: OfTask): Promise<Place> {
    const task = await this.#task(taskId, namespace)
    const taskAgents = await this.#taskAgents(task)
    if (caller !== 'orchestrator' && !(await this.#find(taskAgents, task, caller.agentId)))
      throw new EbbError('forbidden', `The task ${taskId} is not yours; an agent works in the task that it was deployed into.`)
    return { task, taskAgents }
  }

  async #task(taskId: string, namespace: string | undefined): Promise<TaskRecord> {
    const task = await this.#deps.tasks.find(taskId)
    if (!task) this.#taskAgentsById.delete(taskId)
    if (!task || (namespace !== undefined && task.namespace !== namespace))
      throw new EbbError('task_not_found', `There is no task ${JSON.stringify(taskId)}; create one first, or look at the list of tasks.`)
    return task
  }

  async #taskAgents(task: TaskRecord): Promise<TaskAgents> {
    const known = this.#taskAgentsById.get(task.id)
    const taskAgents = known ?? this.#learn(new TaskAgents(task.deployed), task)
    // Nobody comes into it any more.
    if (task.completedAt !== undefined) return await taskAgents
    if (!known) taskAgents.catch(() => this.#taskAgentsById.delete(task.id))
    // Those that were asked for last are the last to go.
    this.#taskAgentsById.delete(task.id)
    this.#taskAgentsById.set(task.id, taskAgents)
    if (this.#taskAgentsById.size > tasksRemembered) await this.#forgetOldest()
    return await taskAgents
  }

  async #forgetOldest(): Promise<void> {
    for (const [id, taskAgents] of this.#taskAgentsById) {
      const known = await taskAgents.catch(() => undefined)
      if (!known || known.present((member) => this.#deps.agents.living.has(member)).length > 0) continue
      this.#taskAgentsById.delete(id)
      return
    }
  }

  async #learn(taskAgents: TaskAgents, { id, namespace }: TaskRecord): Promise<TaskAgents> {
    taskAgents.learn((await this.#deps.store.list({ taskId: id, namespace })).agents)
    return taskAgents
  }

  /** Nobody will be deployed into it any more. */
  forget(taskId: string): void {
    this.#taskAgentsById.delete(taskId)
  }

  async member(request: AgentOfTask): Promise<FoundMember> {
    const { task, taskAgents } = await this.enter(request)
    const member = await this.#find(taskAgents, task, request.agentId)
    if (!member) throw noAgent(task.id, request.agentId)
    return { taskAgents, member }
  }

  /** For those who end it: one that lives is known here, whatever the state of the database (G12). */
  async memberToEnd(request: AgentOfTask): Promise<FoundMember> {
    const { taskId, agentId, caller, namespace } = request
    const taskAgents = await this.#taskAgentsById.get(taskId)
    const member = taskAgents?.find(agentId)
    const run = member && this.#deps.agents.living.get(member.id)
    const isMeant = run && (namespace === undefined || namespace === run.namespace)
    const found = taskAgents && member && isMeant ? { taskAgents, member } : await this.member(request)
    requireAuthority(caller, found.taskAgents, found.member)
    return found
  }

  /** Another process may have deployed it. */
  async #find(taskAgents: TaskAgents, task: TaskRecord, nameOrId: string): Promise<Member | undefined> {
    return taskAgents.find(nameOrId) ?? (await this.#learn(taskAgents, task)).find(nameOrId)
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

/** Tasks are for those who run them. */
export function requireOrchestrator(caller: Caller, what: string): void {
  if (caller !== 'orchestrator') throw new EbbError('forbidden', `An agent may not ${what}; leave that to the orchestrator.`)
}

/** True when the agent speaks of itself; another agent does not speak for it. */
export function requireSelf(caller: Caller, { id, name }: Member): boolean {
  if (caller === 'orchestrator') return false
  if (caller.agentId !== id) throw new EbbError('forbidden', `Only ${name} itself reports for ${name}; report with your own agent_id.`)
  return true
}

export function requireParent(caller: Caller, parent: Member | undefined): void {
  if (caller !== 'orchestrator' && caller.agentId !== parent?.id)
    throw new EbbError('forbidden', 'An agent deploys children of its own only; give your own agent_id as the parent.')
}

/** An agent ends itself, or whom it deployed, and those whom they deployed. */
function requireAuthority(caller: Caller, taskAgents: TaskAgents, { id, name }: Member): void {
  if (caller === 'orchestrator' || caller.agentId === id) return
  if (!taskAgents.descendants(caller.agentId).some((one) => one.id === id))
    throw new EbbError('forbidden', `${name} is not among those whom you deployed; an agent ends itself and its own descendants only.`)
}
