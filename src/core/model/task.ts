/** A task: a scope with a workspace, into which agents are deployed and in which they report. */

export const priorities = ['P0', 'P1', 'P2', 'P3', 'P4'] as const
export type Priority = (typeof priorities)[number]

export type TaskStatus = 'active' | 'closing' | 'completed'

export interface Task {
  readonly id: string
  readonly namespace: string
  readonly description: string
  readonly priority: Priority
  /** The folder in which the workspaces are: of the client, or wherever it said. */
  readonly base: string
  /** Absolute. */
  readonly workspace: string
  /** Where its agents work. */
  readonly cwd: string
  readonly createdAt: string
  readonly completedAt?: string
}

/** What an agent said of its work, last. */
export interface ProgressReport {
  readonly status: string
  readonly message: string
  /** Percent. */
  readonly progress: number
  readonly at: string
}

/** Where the workspaces of a folder are. */
export const workspaceFolder = '.agent-workspace'

/** The names of an agent's files in its task's workspace; others read them. */
export function workspaceFiles(agentName: string): Readonly<Record<'prompt' | 'stream' | 'progress' | 'findings', string>> {
  return {
    prompt: `agent_prompt_${agentName}.txt`,
    stream: `logs/${agentName}_stream.jsonl`,
    progress: `progress/${agentName}_progress.jsonl`,
    findings: `findings/${agentName}_findings.jsonl`,
  }
}

/** What agents are called by those who deploy them: `TYPE-HHMMSS-xxxxxx`. */
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

/** The tmux session of an agent. */
export function sessionName(agentName: string): string {
  return `agent_${agentName}`
}
