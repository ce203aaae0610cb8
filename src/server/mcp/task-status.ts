import type { AgentView, LimitView, TaskView, TreeNode } from '../../tasks/types.ts'

/** The status of a task, which get_real_task_status answers and the resource `task://{task_id}/status` contains. */
export function taskStatus({ task, status, agents, counts, hierarchy, limits }: TaskView): object {
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
      agents_list: agents.map(agentStatus),
    },
    hierarchy: hierarchy.map(treeNode),
    limits: {
      task_concurrent: usedLimit(limits.taskConcurrent),
      task_agents: usedLimit(limits.taskAgents),
      task_depth: usedLimit(limits.taskDepth),
      max_agents: usedLimit(limits.maxAgents),
      spawn_rules: limits.spawnRules,
      stuck_threshold_ms: limits.stuckThresholdMs,
      stuck_action: limits.stuckAction,
    },
  }
}

function usedLimit({ limit, used }: LimitView): object {
  return { limit, used }
}

function agentStatus(view: AgentView): object {
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
    ...(view.terminal && { tmux_session: view.terminal.session }),
    ...(view.completionValidation && { completion_validation: view.completionValidation }),
    ...(view.stuck && { stuck: { since: view.stuck.since, silent_ms: view.stuck.silentMs } }),
  }
}

function treeNode({ id, name, status, children }: TreeNode): object {
  return { agent_id: name, agent_uuid: id, status, children: children.map(treeNode) }
}
