import type { Task } from '../core/model/task.ts'

export interface Introduction {
  readonly task: Task
  readonly name: string
  /** The deployer of the agent: `orchestrator`, or the name of an agent. */
  readonly parent: string
  /** True when the agent has the `ebb` MCP server. */
  readonly canCallBack: boolean
}

/** The text before a deployed agent's prompt: its task, its name, and the tools that it must call. */
export function preambleOf({ task, name, parent, canCallBack }: Introduction): string {
  const deployer = parent === 'orchestrator' ? 'the orchestrator of the task' : `the agent ${parent}`
  return [
    `You are the agent ${name}, deployed by ${deployer}.`,
    `Task: ${task.id}`,
    `Task description: ${task.description}`,
    `Workspace: ${task.workspace}`,
    '',
    ...(canCallBack ? calls(task.id, name) : ['There are no tools to report or to ask: do the work below, say what you did, and stop.']),
    '',
    'Your own part of the task follows.',
    '---',
    '',
  ].join('\n')
}

function calls(taskId: string, name: string): readonly string[] {
  const self = { task_id: taskId, agent_id: name }
  return [
    'Report through the tools of the MCP server "ebb"; leave task_id and agent_id as they are here:',
    `- when you begin, and whenever a step is done: update_agent_progress ${json({ ...self, status: 'working', message: 'WHAT YOU DO NOW', progress: 25 })}`,
    `- for everything worth knowing: report_agent_finding ${json({ ...self, finding_type: 'issue', severity: 'medium', message: 'WHAT YOU FOUND', data: {} })}`,
    `- for a part that another agent should do: spawn_child_agent ${json({ task_id: taskId, parent_agent_id: name, child_agent_type: 'TYPE', child_prompt: 'ITS PART' })}`,
    `- at your end, always, as the last call: update_agent_progress ${json({ ...self, status: 'completed', message: 'WHAT YOU DID', progress: 100 })}; status "failed" if you could not do it. Then stop: you are ended soon afterwards.`,
    'An agent that reports nothing for long counts as stuck.',
  ]
}

function json(value: unknown): string {
  return JSON.stringify(value)
}
