import type { LaunchRequest } from '../agents/preflight.ts'
import type { Agent, AgentStatus } from '../core/model/agent.ts'
import type { Report } from '../core/model/report.ts'
import type { Priority, ProgressReport, Task, TaskStatus } from '../core/model/task.ts'
import type { ProcessDetails } from '../core/ports/process.ts'
import type { Configuration } from '../core/ports/provider.ts'

/** What the tasks service is asked for, and what it answers. */

/** Who asks: whoever runs the task, or one of the agents in it, known by its token. */
export type Caller = 'orchestrator' | AgentCaller

export interface AgentCaller {
  readonly agentId: string
}

export interface OfTask {
  readonly taskId: string
  /** Where it is said, tasks of other namespaces are not there. */
  readonly namespace?: string
  readonly caller: Caller
}

export interface CreateTask {
  readonly namespace: string
  readonly description: string
  readonly priority: Priority
  /** Absolute: the folder in which the workspace is made. */
  readonly base: string
  /** Absolute: where its agents work; by default the base. */
  readonly cwd?: string
  readonly caller: Caller
}

export interface DeployAgent extends OfTask {
  readonly agentType: string
  readonly prompt: string
  /** `orchestrator`, or the name or UUID of an agent of the same task. */
  readonly parent: string
  /** Such as `claude-code`. */
  readonly provider: string
  readonly placement: string
  readonly allowDuplicate?: boolean
  /** For the provider `command`. */
  readonly command?: readonly string[]
  readonly model?: string
  /** What else its launch says. */
  readonly configuration?: Configuration
  readonly requestId?: string
  /** Aborted: whoever asked does not want it any more. What was launched for nobody else is ended, and nothing stays. */
  readonly signal?: AbortSignal
  readonly onPhase?: (phase: DeployPhase) => void
}

/** Everything is checked, and nothing exists; it runs, and its row says so. */
export type DeployPhase = 'prepared' | 'running'

export interface Deployed {
  readonly agent: Agent
  /** It was there already, or was being deployed: the same task, type, prompt and parent. */
  readonly isDeduplicated: boolean
  /** Absolute. */
  readonly workspace: string
  /** Where it runs in a terminal. */
  readonly tmuxSession?: string
}

/** An agent of a task: by its UUID or its name. */
export interface AgentOfTask extends OfTask {
  readonly agentId: string
}

export const lastStatuses = ['completed', 'failed', 'terminated'] as const
export type LastStatus = (typeof lastStatuses)[number]

export function isLastStatus(status: string): status is LastStatus {
  return (lastStatuses as readonly string[]).includes(status)
}

export interface ReportProgress extends AgentOfTask {
  /** Any word; one of `lastStatuses` is the agent's last. */
  readonly status: string
  readonly message: string
  /** Percent. */
  readonly progress: number
}

export interface ProgressTaken {
  /** The agent said it itself. */
  readonly isOwn: boolean
  /** It has said its last word: it is ended when its process has ended, or at this time. */
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
  /** `orchestrator`, or the name of its parent. */
  readonly parent: string
  /** Of its parent, where that is an agent. */
  readonly parentId?: string
  /** 1 for those that the orchestrator deployed. */
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
  readonly tmuxSession?: string
  /** Of one that has ended. */
  readonly completionValidation?: CompletionValidation
  /** It lives and has reported nothing for longer than `stuckThreshold`. */
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
  /** In the order in which they were deployed. */
  readonly agents: readonly AgentView[]
  readonly counts: { readonly total: number; readonly active: number; readonly completed: number; readonly stuck: number }
  /** Those whom the orchestrator deployed, with their children. */
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
  /** Only the last so many lines. */
  readonly tail?: number
  /** Only what comes after this place: `next` of an earlier answer. */
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
  /** Its descendants too. */
  readonly cascade?: boolean
}

export interface CleanupResult {
  /** Nothing of it is left, proven, and no log is owed. */
  readonly success: boolean
  readonly tmuxSessionKilled: boolean
  readonly promptFileDeleted: boolean
  /** No log is owed any more. */
  readonly logFilesArchived: boolean
  readonly verifiedNoZombies: boolean
  readonly zombies: readonly ProcessDetails[]
  readonly errors: readonly string[]
  /** Absolute, in the order stdout, progress, findings. */
  readonly archivedFiles: readonly string[]
  readonly report: Report
}

/** Of an agent that is gone the database may have nothing to say for now. */
export type Named = Pick<Agent, 'id' | 'name'>

export interface Killed {
  readonly agent: Named
  readonly reason?: string
  readonly success: boolean
  readonly cleanup: CleanupResult
  /** With `cascade`. */
  readonly descendants: readonly { readonly agent: Named; readonly cleanup: CleanupResult }[]
}

export interface Completed {
  readonly task: Task
  readonly report: Report
}

/** How a deployed agent calls back: set by whoever listens. */
export interface Callback {
  /** The address of a server with `/mcp`. */
  readonly url: string
  /** The absolute path of the `ebb` program. */
  readonly command: string
}

/** The service, as the interfaces see it. `control.tasks` is one. */
export interface TaskService {
  /** Without one, deployed agents are told nothing of the `ebb` MCP server. Asked anew at each deployment. */
  callback: () => Callback | undefined
  /** Whose token it is. It ends with the agent. */
  callerOf(token: string): Promise<AgentCaller | undefined>
  create(request: CreateTask): Promise<Task>
  deploy(request: DeployAgent): Promise<Deployed>
  /** For those who launch by a task's id: into one of ours it is a deployment, with all its limits. */
  launch(request: LaunchRequest): Promise<Agent>
  progress(request: ReportProgress): Promise<ProgressTaken>
  finding(request: ReportFinding): Promise<FindingTaken>
  status(request: OfTask): Promise<TaskView>
  output(request: AgentOutput): Promise<OutputLines>
  kill(request: KillAgent): Promise<Killed>
  cleanup(request: CleanupAgent): Promise<CleanupResult>
  complete(request: OfTask): Promise<Completed>
  /** Newest first; an agent sees its own. */
  list(request: Omit<OfTask, 'taskId'>): Promise<readonly TaskSummary[]>
}
