import { type Agent, hasEnded } from '../core/model/agent.ts'
import { agentTypeOf, type ProgressReport, sessionName } from '../core/model/task.ts'
import type { Heard } from '../core/ports/tasks.ts'
import type { TaskAgents } from './task-agents.ts'
import { type AgentView, type CompletionValidation, isLastStatus, type TreeNode } from './types.ts'

/** What is told of the agents of a task. */

export interface Sight {
  readonly taskAgents: TaskAgents
  readonly heard: ReadonlyMap<string, Heard>
  readonly silence: (agentId: string) => AgentView['stuck']
}

export function viewOf(agent: Agent, { taskAgents, heard, silence }: Sight): AgentView {
  const { id, type, placement, status, createdAt, startedAt, completedAt, exitCode, error, parentAgentId } = agent
  const name = agent.name ?? id
  const { progress, findings = 0 } = heard.get(id) ?? {}
  const stuck = silence(id)
  return {
    id,
    name,
    agentType: agentTypeOf(name),
    provider: type,
    placement,
    parent: taskAgents.nameOf(parentAgentId),
    ...(parentAgentId !== undefined && { parentId: parentAgentId }),
    depth: taskAgents.find(id)?.depth ?? 1,
    status,
    createdAt,
    ...(startedAt !== undefined && { startedAt }),
    ...(completedAt !== undefined && { completedAt }),
    ...(exitCode !== undefined && { exitCode }),
    ...(error && { error }),
    ...(progress && { lastProgress: progress }),
    findings,
    messageCount: agent.session.messageCount,
    ...tmuxSessionOf(agent),
    ...(hasEnded(agent) && { completionValidation: validate(agent, progress) }),
    ...(stuck && { stuck }),
  }
}

export function tmuxSessionOf({ name, placement }: Agent): { readonly tmuxSession?: string } {
  return placement === 'tmux' && name !== undefined ? { tmuxSession: sessionName(name) } : {}
}

/** Whether an agent that has ended did what it was deployed for, as far as can be told from outside. */
function validate({ status, error, exitCode, session }: Agent, progress: ProgressReport | undefined): CompletionValidation {
  const warnings: string[] = []
  if (status === 'terminated') warnings.push('It was ended before it was through.')
  if (status === 'failed') warnings.push(`It failed: ${error?.message ?? 'it did not say why.'}`)
  if (status === 'stuck') warnings.push('Something of it could not be removed.')
  if (!progress) warnings.push('It ended without a report of its progress.')
  else if (!isLastStatus(progress.status)) warnings.push(`Its last report was "${progress.status}", and not that it was through.`)
  else if (progress.status === 'completed' && progress.progress < 100)
    warnings.push(`It reported completed at ${progress.progress} percent.`)
  if (progress?.status === 'completed' && exitCode !== undefined && exitCode !== 0)
    warnings.push(`It reported completed, and exited with code ${exitCode}.`)
  // The prompt is the first message.
  if (session.messageCount <= 1) warnings.push('It wrote nothing.')
  return { valid: warnings.length === 0, warnings }
}

/** By parents; one whose parent is gone stands with those of the orchestrator. */
export function treeOf(agents: readonly AgentView[]): readonly TreeNode[] {
  const known = new Set(agents.map(({ id }) => id))
  const below = Map.groupBy(agents, ({ parentId }) => (parentId !== undefined && known.has(parentId) ? parentId : undefined))
  const nodes = (parentId: string | undefined): readonly TreeNode[] =>
    (below.get(parentId) ?? []).map(({ id, name, status }) => ({ id, name, status, children: nodes(id) }))
  return nodes(undefined)
}
