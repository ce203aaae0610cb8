import { join } from 'node:path'
import type { Agent } from '../../core/model/agent.ts'
import type { Task } from '../../core/model/task.ts'
import type {
  AgentView,
  CleanupResult,
  Completed,
  Deployed,
  Killed,
  LimitView,
  TaskSummary,
  TaskView,
  TreeNode,
} from '../../tasks/types.ts'

/** Turns the answers of the tasks service into the public results of the MCP tools (docs/in-depth/mcp.md). */

/** How many leftover processes an answer lists. It counts all of them. */
const zombiesShown = 3

const nameOf = ({ id, name }: Pick<Agent, 'id' | 'name'>): string => name ?? id

export function createdShape({ id, workspace, namespace, description, priority, createdAt }: Task): object {
  return { success: true, task_id: id, workspace, status: 'active', namespace, description, priority, created_at: createdAt }
}

export function deployedShape({ agent, isDeduplicated, workspace, tmuxSession }: Deployed, home: string): object {
  return {
    success: true,
    agent_id: nameOf(agent),
    agent_uuid: agent.id,
    tmux_session: tmuxSession ?? null,
    tmux_socket: tmuxSession === undefined ? null : join(home, 'tmux.sock'),
    status: agent.status,
    workspace,
    provider: agent.type,
    placement: agent.placement,
    ...(isDeduplicated && { deduplicated: true }),
  }
}

export function statusShape({ task, status, agents, counts, hierarchy, limits }: TaskView): object {
  return {
    success: true,
    task_id: task.id,
    description: task.description,
    status,
    workspace: task.workspace,
    priority: task.priority,
    namespace: task.namespace,
    created_at: task.createdAt,
    ...(task.completedAt !== undefined && { completed_at: task.completedAt }),
    agents: {
      total_spawned: counts.total,
      active: counts.active,
      completed: counts.completed,
      stuck: counts.stuck,
      agents_list: agents.map(agentShape),
    },
    hierarchy: hierarchy.map(nodeShape),
    limits: {
      task_concurrent: limitShape(limits.taskConcurrent),
      task_agents: limitShape(limits.taskAgents),
      task_depth: limitShape(limits.taskDepth),
      max_agents: limitShape(limits.maxAgents),
      spawn_rules: limits.spawnRules,
      stuck_threshold_ms: limits.stuckThresholdMs,
      stuck_action: limits.stuckAction,
    },
  }
}

function limitShape({ limit, used }: LimitView): object {
  return { limit, used }
}

function agentShape(view: AgentView): object {
  return {
    agent_id: view.name,
    agent_uuid: view.id,
    agent_type: view.agentType,
    provider: view.provider,
    placement: view.placement,
    parent: view.parent,
    depth: view.depth,
    status: view.status,
    created_at: view.createdAt,
    ...(view.startedAt !== undefined && { started_at: view.startedAt }),
    ...(view.completedAt !== undefined && { completed_at: view.completedAt }),
    ...(view.exitCode !== undefined && { exit_code: view.exitCode }),
    ...(view.error && { error: view.error }),
    ...(view.lastProgress && { last_progress: view.lastProgress }),
    findings: view.findings,
    message_count: view.messageCount,
    ...(view.tmuxSession !== undefined && { tmux_session: view.tmuxSession }),
    ...(view.completionValidation && { completion_validation: view.completionValidation }),
    ...(view.stuck && { stuck: { since: view.stuck.since, silent_ms: view.stuck.silentMs } }),
  }
}

function nodeShape({ id, name, status, children }: TreeNode): object {
  return { agent_id: name, agent_uuid: id, status, children: children.map(nodeShape) }
}

export function cleanupShape(result: CleanupResult): object {
  const { zombies } = result
  return {
    success: result.success,
    tmux_session_killed: result.tmuxSessionKilled,
    prompt_file_deleted: result.promptFileDeleted,
    log_files_archived: result.logFilesArchived,
    verified_no_zombies: result.verifiedNoZombies,
    ...(zombies.length > 0 && { zombie_processes: zombies.length, zombie_process_details: zombies.slice(0, zombiesShown) }),
    errors: result.errors,
    archived_files: result.archivedFiles,
    report: result.report,
  }
}

export function killedShape({ agent, success, cleanup, descendants }: Killed, reason: string, cascade: boolean): object {
  return {
    success,
    agent_id: nameOf(agent),
    agent_uuid: agent.id,
    reason,
    cleanup: cleanupShape(cleanup),
    ...(cascade && {
      descendants: descendants.map((killed) => ({ agent_id: nameOf(killed.agent), cleanup: cleanupShape(killed.cleanup) })),
    }),
  }
}

export function completedShape({ task, report }: Completed): object {
  return { success: report.success, task_id: task.id, report }
}

export function summaryShape({ task, status, agents }: TaskSummary): object {
  return {
    task_id: task.id,
    description: task.description,
    status,
    priority: task.priority,
    namespace: task.namespace,
    workspace: task.workspace,
    created_at: task.createdAt,
    ...(task.completedAt !== undefined && { completed_at: task.completedAt }),
    agents,
  }
}
