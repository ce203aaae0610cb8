import type { ProgressReport, Task } from '../model/task.ts'

/** The rows of tasks, and what the agents in them reported. Whether a task is open is for its scope to say. */

export interface TaskRecord extends Task {
  /** Agents that were ever deployed into it, also those that are deleted by now. */
  readonly deployed: number
}

/** What was heard of an agent. */
export interface Heard {
  readonly progress?: ProgressReport
  readonly findings: number
  /** It was given a token, with which it calls back. */
  readonly canReport: boolean
}

export interface TaskStore {
  create(task: Task): Promise<void>
  find(id: string): Promise<TaskRecord | undefined>
  /** Newest first. */
  list(filter: { readonly namespace?: string; readonly limit: number }): Promise<readonly TaskRecord[]>
  /** How many agents of each have not ended. */
  count(ids: readonly string[]): Promise<ReadonlyMap<string, number>>
  complete(id: string, at: string): Promise<void>
  /** One more agent was deployed into it. */
  countDeployed(id: string): Promise<void>

  /** The last word of an agent on its work. */
  keepProgress(agentId: string, progress: ProgressReport): Promise<void>
  countFinding(agentId: string): Promise<void>
  /** By agent, of those of a task that have rows. */
  heard(taskId: string): Promise<ReadonlyMap<string, Heard>>

  /** Whose token this is the hash of, as long as that agent has not ended. */
  tokenHolder(hash: string): Promise<string | undefined>

  /**
   * What marks a shared folder of ours, by the folder in which it is: so that whoever leaves it last knows that we made it.
   * It is kept as long as a task has its workspace there.
   */
  keepFolder(base: string, mark: unknown): Promise<void>
  findFolder(base: string): Promise<unknown>
}
