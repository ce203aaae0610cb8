/** A task: a scope with a workspace. Agents are deployed into it and report to it. */

export const priorities = ['P0', 'P1', 'P2', 'P3', 'P4'] as const
export type Priority = (typeof priorities)[number]

export type TaskStatus = 'active' | 'closing' | 'completed'

export interface Task {
  readonly id: string
  readonly namespace: string
  readonly description: string
  readonly priority: Priority
  /** The folder in which `workspaceFolder` is made: the client's working directory, or the folder that the client named. */
  readonly base: string
  /** The absolute path of the task's workspace. */
  readonly workspace: string
  /** The working directory of the task's agents. */
  readonly cwd: string
  readonly createdAt: string
  readonly completedAt?: string
}

/** The latest progress report of an agent. */
export interface ProgressReport {
  readonly status: string
  readonly message: string
  /** Percent. */
  readonly progress: number
  readonly at: string
}

/** The folder, in a task's `base`, that contains the workspaces. */
export const workspaceFolder = '.agent-workspace'

/** The names of an agent's files in its task's workspace. Other programs read these files. */
export function workspaceFiles(agentName: string): Readonly<Record<'prompt' | 'stream' | 'progress' | 'findings', string>> {
  return {
    prompt: `agent_prompt_${agentName}.txt`,
    stream: `logs/${agentName}_stream.jsonl`,
    progress: `progress/${agentName}_progress.jsonl`,
    findings: `findings/${agentName}_findings.jsonl`,
  }
}

/** The pattern for the type in an agent's name, which is `TYPE-HHMMSS-xxxxxx`. */
export const agentTypePattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,47}$/

export function agentName(agentType: string, agentId: string, at: string): string {
  return `${agentType}-${at.slice(11, 19).replaceAll(':', '')}-${agentId.replaceAll('-', '').slice(0, 6)}`
}

export function agentTypeOf(name: string): string {
  return name.replace(/-\d{6}-[0-9a-f]{6}$/, '')
}

export function taskName(id: string, at: string): string {
  return `TASK-${at.slice(0, 10).replaceAll('-', '')}-${at.slice(11, 19).replaceAll(':', '')}-${id.replaceAll('-', '').slice(0, 8)}`
}
