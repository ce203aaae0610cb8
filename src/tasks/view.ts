import { type Agent, hasEnded } from '../core/model/agent.ts'
import { agentTypeOf, type ProgressReport } from '../core/model/task.ts'
import type { TerminalPlace } from '../core/ports/placement.ts'
import type { Heard } from '../core/ports/tasks.ts'
import type { TaskAgents } from './task-agents.ts'
import { type AgentView, type CompletionValidation, isLastStatus, type TreeNode } from './types.ts'

/** The input of `viewOf` besides the agent's row. */
export interface ViewContext {
  readonly taskAgents: TaskAgents
  readonly reports: ReadonlyMap<string, Heard>
  readonly silence: (agentId: string) => AgentView['stuck']
  readonly terminalOf: (agent: Agent) => TerminalPlace | undefined
}

/** The public view of one agent of a task. */
export function viewOf(agent: Agent, { taskAgents, reports, silence, terminalOf }: ViewContext): AgentView {
  const { id, type, placement, status, createdAt, startedAt, completedAt, exitCode, error, parentAgentId } = agent
  const name = agent.name ?? id
  const { progress, findings = 0 } = reports.get(id) ?? {}
  const stuck = silence(id)
  const terminal = terminalOf(agent)
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
    ...(terminal && { terminal }),
    ...(hasEnded(agent) && { completionValidation: validate(agent, progress) }),
    ...(stuck && { stuck }),
  }
}

/** Checks from outside whether an ended agent has done its work: its status, last report, exit code and messages. */
function validate({ status, error, exitCode, session }: Agent, progress: ProgressReport | undefined): CompletionValidation {
  const warnings: string[] = []
  if (status === 'terminated') warnings.push('The agent was ended before it finished.')
  if (status === 'failed') warnings.push(`The agent failed: ${error?.message ?? 'no reason was reported.'}`)
  if (status === 'stuck') warnings.push("Some of the agent's resources could not be released.")
  if (!progress) warnings.push('The agent ended without a progress report.')
  else if (!isLastStatus(progress.status))
    warnings.push(`The last report was "${progress.status}", which does not say that the work is finished.`)
  else if (progress.status === 'completed' && progress.progress < 100)
    warnings.push(`The agent reported completed at ${progress.progress} percent.`)
  if (progress?.status === 'completed' && exitCode !== undefined && exitCode !== 0)
    warnings.push(`The agent reported completed, but exited with code ${exitCode}.`)
  // The prompt is the first message.
  if (session.messageCount <= 1) warnings.push('The agent wrote no output.')
  return { valid: warnings.length === 0, warnings }
}

/** Arranges agents by parent. An agent whose parent's row is deleted is listed at the top level. */
export function treeOf(agents: readonly AgentView[]): readonly TreeNode[] {
  const known = new Set(agents.map(({ id }) => id))
  const below = Map.groupBy(agents, ({ parentId }) => (parentId !== undefined && known.has(parentId) ? parentId : undefined))
  const nodes = (parentId: string | undefined): readonly TreeNode[] =>
    (below.get(parentId) ?? []).map(({ id, name, status }) => ({ id, name, status, children: nodes(id) }))
  return nodes(undefined)
}
