import type { TaskLimits } from '../agents/settings.ts'
import { EbbError } from '../core/model/errors.ts'
import type { Member, TaskAgents } from './task-agents.ts'

/** Checks the limits that stop agents from deploying agents without end. Each refusal names the limit and what to do. */
export function requireRoom(limits: TaskLimits, taskAgents: TaskAgents, member: Member, isLiving: (id: string) => boolean): void {
  if (taskAgents.isKilled(member.parentId)) throw parentKilled()
  const present = taskAgents.present(isLiving)
  if (member.depth > limits.depth)
    throw refuse(
      `The agent would be of generation ${member.depth}, and --task-depth (taskDepth) allows ${limits.depth}; let an agent of an earlier generation, or the orchestrator, deploy it.`,
    )
  if (present.length >= limits.concurrent)
    throw refuse(
      `${present.length} agents of this task run or are being deployed already, which is as many as --task-concurrent (taskConcurrent: ${limits.concurrent}) allows; wait until one has ended, or kill one.`,
    )
  if (taskAgents.total >= limits.agents)
    throw refuse(
      `${taskAgents.total} agents were deployed into this task already, which is as many as --task-agents (taskAgents: ${limits.agents}) allows; finish with those there are, or create another task.`,
    )
  requireRule(limits, taskAgents, member, present)
}

/** If there are spawn rules, one of them must allow the deployment and have room for it. */
function requireRule({ spawnRules }: TaskLimits, taskAgents: TaskAgents, member: Member, present: readonly Member[]): void {
  if (spawnRules.length === 0) return
  const parentType = taskAgents.typeOf(member.parentId)
  const matching = spawnRules.filter(({ parent, child }) => parent.test(parentType) && child.test(member.agentType))
  if (matching.length === 0)
    throw refuse(
      `No rule of --spawn-rule (spawnRule: ${spawnRules.map(({ text }) => text).join(', ')}) lets ${parentType} deploy an agent of type ${member.agentType}; use a type that is allowed, or ask the orchestrator.`,
    )
  const hasRoom = matching.some(
    ({ child, most }) => most === undefined || present.filter(({ agentType }) => child.test(agentType)).length < most,
  )
  if (!hasRoom)
    throw refuse(
      `As many agents of type ${member.agentType} run in this task as --spawn-rule (spawnRule: ${matching.map(({ text }) => text).join(', ')}) allows at once; wait until one has ended, or kill one.`,
    )
}

export function parentKilled(): EbbError {
  return refuse(
    'The parent was killed with all its descendants and cannot deploy agents; let another agent, or the orchestrator, deploy it.',
  )
}

function refuse(message: string): EbbError {
  return new EbbError('spawn_refused', message)
}
