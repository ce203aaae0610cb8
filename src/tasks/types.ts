import type { Launched } from '../agents/agents.ts'
import type { LaunchRequest } from '../agents/preflight.ts'
import type { Agent, AgentStatus } from '../core/model/agent.ts'
import type { Report } from '../core/model/report.ts'
import type { Priority, ProgressReport, Task, TaskStatus } from '../core/model/task.ts'
import type { TerminalPlace } from '../core/ports/placement.ts'
import type { ProcessDetails } from '../core/ports/process.ts'
import type { Configuration } from '../core/ports/provider.ts'

/** The requests and answers of the task service. */

/** The caller of an operation: the orchestrator of the task, or one of its agents, identified by its token. */
export type Caller = 'orchestrator' | AgentCaller

export interface AgentCaller {
  readonly agentId: string
}

export interface OfTask {
  readonly taskId: string
  /** The namespace of the task. If given, tasks of other namespaces count as not found. */
  readonly namespace?: string
  readonly caller: Caller
}

export interface CreateTask {
  readonly namespace: string
  readonly description: string
  readonly priority: Priority
  /** The absolute path of the folder in which the workspace is created. */
  readonly base: string
  /** The absolute path of the agents' working directory; default `base`. */
  readonly cwd?: string
  readonly caller: Caller
}

export interface DeployAgent extends OfTask {
  readonly agentType: string
  readonly prompt: string
  /** The parent of the agent: `orchestrator`, or the name or UUID of an agent of the same task. */
  readonly parent: string
  /** The provider of the agent, such as `claude-code`. */
  readonly provider: string
  readonly placement: string
  readonly allowDuplicate?: boolean
  /** The argv for the provider `command`. */
  readonly command?: readonly string[]
  readonly model?: string
  /** Further configuration of the launch. */
  readonly configuration?: Configuration
  readonly requestId?: string
  /** Cancels the deployment for this caller. If no other caller waits for the same agent, it is ended and removed. */
  readonly signal?: AbortSignal
  readonly onPhase?: (phase: DeployPhase) => void
}

/** `prepared`: all checks have passed and nothing exists yet. `running`: the agent runs and its row says so. */
export type DeployPhase = 'prepared' | 'running'

export interface Deployed {
  readonly agent: Agent
  /** True when an equal agent was running or being deployed: same task, type, prompt and parent. */
  readonly isDeduplicated: boolean
  /** The absolute path of the task's workspace. */
  readonly workspace: string
  /** The terminal of the agent, when its placement has terminals. */
  readonly terminal?: TerminalPlace
}

/** Identifies an agent of a task by its UUID or its name. */
export interface AgentOfTask extends OfTask {
  readonly agentId: string
}

export const lastStatuses = ['completed', 'failed', 'terminated'] as const
export type LastStatus = (typeof lastStatuses)[number]

export function isLastStatus(status: string): status is LastStatus {
  return (lastStatuses as readonly string[]).includes(status)
}

export interface ReportProgress extends AgentOfTask {
  /** The reported status: any word. One of `lastStatuses` makes the report the agent's last one. */
  readonly status: string
  readonly message: string
  /** The reported progress, from 0 to 100 percent. */
  readonly progress: number
}

export interface ProgressTaken {
  /** True when the agent itself reported, false for the orchestrator. */
  readonly isOwn: boolean
  /** The planned end of an agent that has sent its last report: its scope is closed when its process exits, at the latest at `by`. */
  readonly cleanup?: { readonly scheduled: true; readonly by: string }
}

export interface ReportFinding extends AgentOfTask {
  readonly findingType: string
  readonly severity: string
  readonly message: string
  readonly data?: unknown
}

export interface FindingTaken {
  readonly isOwn: boolean
}

export interface CompletionValidation {
  readonly valid: boolean
  readonly warnings: readonly string[]
}

export interface AgentView {
  readonly id: string
  readonly name: string
  readonly agentType: string
  readonly provider: string
  readonly placement: string
  /** The parent of the agent: `orchestrator`, or the name of an agent. */
  readonly parent: string
  /** The id of the parent, if the parent is an agent. */
  readonly parentId?: string
  /** The generation: 1 for agents deployed by the orchestrator. */
  readonly depth: number
  readonly status: AgentStatus
  readonly createdAt: string
  readonly startedAt?: string
  readonly completedAt?: string
  readonly exitCode?: number
  readonly error?: Agent['error']
  readonly lastProgress?: ProgressReport
  readonly findings: number
  readonly messageCount: number
  readonly terminal?: TerminalPlace
  /** The check whether an ended agent has done its work. Absent while the agent runs. */
  readonly completionValidation?: CompletionValidation
  /** How long the agent has sent no report. Present while it runs and has been silent for longer than `stuckThreshold`. */
  readonly stuck?: { readonly since: string; readonly silentMs: number }
}

export interface TreeNode {
  readonly id: string
  readonly name: string
  readonly status: AgentStatus
  readonly children: readonly TreeNode[]
}

export interface LimitView {
  readonly limit: number
  readonly used: number
}

export interface TaskView {
  readonly task: Task
  readonly status: TaskStatus
  /** The agents of the task, oldest first. */
  readonly agents: readonly AgentView[]
  readonly counts: { readonly total: number; readonly active: number; readonly completed: number; readonly stuck: number }
  /** The agents deployed by the orchestrator, with their descendants. */
  readonly hierarchy: readonly TreeNode[]
  readonly limits: {
    readonly taskConcurrent: LimitView
    readonly taskAgents: LimitView
    readonly taskDepth: LimitView
    readonly maxAgents: LimitView
    readonly spawnRules: readonly string[]
    readonly stuckThresholdMs: number
    readonly stuckAction: StuckAction
  }
}

export type StuckAction = 'report' | 'end'

export interface TaskSummary {
  readonly task: Task
  readonly status: TaskStatus
  readonly agents: { readonly total: number; readonly active: number }
}

export interface AgentOutput extends AgentOfTask {
  /** Returns only this many lines from the end. */
  readonly tail?: number
  /** Returns only the lines after this position, which is the `next` of an earlier answer. */
  readonly since?: number
}

export interface OutputLines {
  readonly lines: readonly string[]
  readonly next: number
}

export interface CleanupAgent extends AgentOfTask {
  readonly keepLogs: boolean
}

export interface KillAgent extends AgentOfTask {
  readonly reason?: string
  /** Kills the agent's descendants too. */
  readonly cascade?: boolean
}

export interface CleanupResult {
  /** True when all resources are proven released and no log waits for its archive. */
  readonly success: boolean
  /** True when no terminal of the agent is left. */
  readonly terminalClosed: boolean
  readonly promptFileDeleted: boolean
  /** True when no log waits for its archive. */
  readonly logFilesArchived: boolean
  readonly verifiedNoZombies: boolean
  readonly zombies: readonly ProcessDetails[]
  readonly errors: readonly string[]
  /** The absolute paths of the agent's archives, in the order stdout, progress, findings. */
  readonly archivedFiles: readonly string[]
  readonly report: Report
}

/** The id and name of an agent, for answers that are given while the database does not answer. */
export type Named = Pick<Agent, 'id' | 'name'>

export interface Killed {
  readonly agent: Named
  readonly reason?: string
  readonly success: boolean
  readonly cleanup: CleanupResult
  /** The descendants that were killed too; empty without `cascade`. */
  readonly descendants: readonly { readonly agent: Named; readonly cleanup: CleanupResult }[]
}

export interface Completed {
  readonly task: Task
  readonly report: Report
}

/** How a deployed agent calls the server that deployed it. */
export interface Callback {
  /** The address of a server with `/mcp`. */
  readonly url: string
  /** The absolute path of the `ebb` program. */
  readonly command: string
}

/** The task service, as the server and the MCP tools use it. */
export interface TaskService {
  /** The agent with this token, or undefined. A token ends with its agent. */
  callerOf(token: string): Promise<AgentCaller | undefined>
  create(request: CreateTask): Promise<Task>
  deploy(request: DeployAgent): Promise<Deployed>
  /** Deploys a new agent into the task of the request, with all its limits. Undefined when the request names no task of its namespace. */
  launch(request: LaunchRequest): Promise<Launched | undefined>
  progress(request: ReportProgress): Promise<ProgressTaken>
  finding(request: ReportFinding): Promise<FindingTaken>
  status(request: OfTask): Promise<TaskView>
  output(request: AgentOutput): Promise<OutputLines>
  kill(request: KillAgent): Promise<Killed>
  cleanup(request: CleanupAgent): Promise<CleanupResult>
  complete(request: OfTask): Promise<Completed>
  /** Lists tasks, newest first. An agent sees only its own task. */
  list(request: Omit<OfTask, 'taskId'>): Promise<readonly TaskSummary[]>
}
