import type { Agents } from '../agents/agents.ts'
import type { Owners } from '../agents/owners.ts'
import { EbbError, isEbbError } from '../core/model/errors.ts'
import type { TaskStatus } from '../core/model/task.ts'
import type { AgentStore } from '../core/ports/agents.ts'
import type { TaskRecord, TaskStore } from '../core/ports/tasks.ts'
import { Crew, type Member } from './crew.ts'
import type { AgentOfTask, Caller, OfTask } from './types.ts'

export interface RosterDeps {
  readonly store: AgentStore
  readonly tasks: TaskStore
  readonly owners: Owners
  readonly agents: Pick<Agents, 'living'>
}

export interface Place {
  readonly task: TaskRecord
  readonly crew: Crew
}

export interface FoundMember extends Pick<Place, 'crew'> {
  readonly member: Member
}

/** Crews that nobody is in are learned again when somebody asks. */
const crewsRemembered = 1_000

/** Which tasks there are, who is in them, and what those who ask may do there. */
export class Roster {
  readonly #deps: RosterDeps
  readonly #crews = new Map<string, Promise<Crew>>()

  constructor(deps: RosterDeps) {
    this.#deps = deps
  }

  /** The task, for somebody who may see it. */
  async enter({ taskId, caller, namespace }: OfTask): Promise<Place> {
    const task = await this.#task(taskId, namespace)
    const crew = await this.#crew(task)
    if (caller !== 'orchestrator' && !(await this.#find(crew, task, caller.agentId)))
      throw new EbbError('forbidden', `The task ${taskId} is not yours; an agent works in the task that it was deployed into.`)
    return { task, crew }
  }

  async #task(taskId: string, namespace: string | undefined): Promise<TaskRecord> {
    const task = await this.#deps.tasks.find(taskId)
    if (!task) this.#crews.delete(taskId)
    if (!task || (namespace !== undefined && task.namespace !== namespace))
      throw new EbbError('task_not_found', `There is no task ${JSON.stringify(taskId)}; create one first, or look at the list of tasks.`)
    return task
  }

  async #crew(task: TaskRecord): Promise<Crew> {
    const known = this.#crews.get(task.id)
    const crew = known ?? this.#learn(new Crew(task.deployed), task)
    // Nobody comes into it any more.
    if (task.completedAt !== undefined) return await crew
    if (!known) crew.catch(() => this.#crews.delete(task.id))
    // Those that were asked for last are the last to go.
    this.#crews.delete(task.id)
    this.#crews.set(task.id, crew)
    if (this.#crews.size > crewsRemembered) await this.#forgetOldest()
    return await crew
  }

  async #forgetOldest(): Promise<void> {
    for (const [id, crew] of this.#crews) {
      const known = await crew.catch(() => undefined)
      if (!known || known.present((member) => this.#deps.agents.living.has(member)).length > 0) continue
      this.#crews.delete(id)
      return
    }
  }

  async #learn(crew: Crew, { id, namespace }: TaskRecord): Promise<Crew> {
    crew.learn((await this.#deps.store.list({ taskId: id, namespace })).agents)
    return crew
  }

  /** Nobody will be deployed into it any more. */
  forget(taskId: string): void {
    this.#crews.delete(taskId)
  }

  async member(request: AgentOfTask): Promise<FoundMember> {
    const { task, crew } = await this.enter(request)
    const member = await this.#find(crew, task, request.agentId)
    if (!member) throw noAgent(task.id, request.agentId)
    return { crew, member }
  }

  /** For those who end it: one that lives is known here, whatever the state of the database (G12). */
  async memberToEnd(request: AgentOfTask): Promise<FoundMember> {
    const { taskId, agentId, caller, namespace } = request
    const crew = await this.#crews.get(taskId)
    const member = crew?.find(agentId)
    const run = member && this.#deps.agents.living.get(member.id)
    const isMeant = run && (namespace === undefined || namespace === run.namespace)
    const found = crew && member && isMeant ? { crew, member } : await this.member(request)
    requireAuthority(caller, found.crew, found.member)
    return found
  }

  /** Another process may have deployed it. */
  async #find(crew: Crew, task: TaskRecord, nameOrId: string): Promise<Member | undefined> {
    return crew.find(nameOrId) ?? (await this.#learn(crew, task)).find(nameOrId)
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
function requireAuthority(caller: Caller, crew: Crew, { id, name }: Member): void {
  if (caller === 'orchestrator' || caller.agentId === id) return
  if (!crew.descendants(caller.agentId).some((one) => one.id === id))
    throw new EbbError('forbidden', `${name} is not among those whom you deployed; an agent ends itself and its own descendants only.`)
}
