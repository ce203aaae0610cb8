import type { Inode } from '../model/identity.ts'
import type { ProgressReport, Task } from '../model/task.ts'

/** Storage of tasks and of what their agents reported. Whether a task is open is the state of its scope. */

export interface TaskRecord extends Task {
  /** How many agents were ever deployed into the task, deleted ones included. */
  readonly deployed: number
}

/** The reports of an agent. */
export interface Heard {
  readonly progress?: ProgressReport
  readonly findings: number
  /** True when the agent has a token with which it can report. */
  readonly canReport: boolean
}

export interface TaskStore {
  create(task: Task): Promise<void>
  find(id: string): Promise<TaskRecord | undefined>
  /** The tasks that match the filter, newest first. */
  list(filter: { readonly namespace?: string; readonly limit: number }): Promise<readonly TaskRecord[]>
  /** The number of agents of each task that have not ended. */
  count(ids: readonly string[]): Promise<ReadonlyMap<string, number>>
  complete(id: string, at: string): Promise<void>
  /** Counts one more deployed agent. */
  countDeployed(id: string): Promise<void>

  /** Stores an agent's latest progress report. */
  keepProgress(agentId: string, progress: ProgressReport): Promise<void>
  countFinding(agentId: string): Promise<void>
  /** What the agents of a task have reported, by agent id, for those that have a row. */
  heard(taskId: string): Promise<ReadonlyMap<string, Heard>>

  /** The agent to which the token with this hash belongs. Undefined once that agent has ended. */
  tokenHolder(hash: string): Promise<string | undefined>

  /**
   * Stores the identity of a shared folder that Ebb created in `base`, so that the last task to leave it knows that it may be removed. It
   * is stored for as long as a task has its workspace there.
   */
  keepFolder(base: string, mark: Inode): Promise<void>
  findFolder(base: string): Promise<Inode | undefined>
}
