/** One run of a coding agent, from launch to the proof that it is gone. */

export const agentStatuses = ['initializing', 'running', 'stopping', 'completed', 'failed', 'terminated', 'stuck'] as const
export type AgentStatus = (typeof agentStatuses)[number]

/** The status with which an agent ends. Only when the deletion of an ended agent fails does its status change once more: to `stuck`. */
export type FinalStatus = 'completed' | 'failed' | 'terminated'

export function isFinal(status: AgentStatus): status is FinalStatus {
  return status === 'completed' || status === 'failed' || status === 'terminated'
}

export const finalStatuses = agentStatuses.filter(isFinal)
export const activeStatuses = agentStatuses.filter((status) => !isFinal(status))

export interface AgentError {
  readonly name: string
  readonly message: string
}

/** The agent's verdict on its own work. */
export interface AgentResult {
  readonly isSuccess: boolean
  readonly error?: AgentError
  /**
   * Set when the agent itself reported its end to its task, in place of a result of its program. If the agent has not exited at `by`, Ebb
   * ends it.
   */
  readonly farewell?: Farewell & { readonly by: string }
}

/** The part of a configuration that is stored with the agent. Environment values are never stored. */
export interface KeptConfiguration {
  readonly workingDirectory?: string
  readonly conversationName?: string
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly sessionId?: string
  readonly model?: string
  readonly limits?: { readonly memoryBytes?: number; readonly pids?: number; readonly logBytes?: number }
  /** Milliseconds. The time limit is stored so that a server that adopts the agent can enforce it. */
  readonly timeout?: number
  readonly idleTimeout?: number
}

export interface Agent {
  readonly id: string
  readonly name?: string
  readonly type: string
  readonly status: AgentStatus
  readonly placement: string
  readonly namespace: string
  readonly requestId?: string
  readonly taskId?: string
  readonly parentAgentId?: string
  readonly session: {
    readonly id: string
    readonly prompt: string
    readonly messageCount: number
    readonly configuration: KeptConfiguration
  }
  readonly createdAt: string
  readonly startedAt?: string
  readonly completedAt?: string
  readonly exitCode?: number
  readonly signal?: string
  readonly error?: AgentError
}

/**
 * True once the agent's end is recorded. Its status may still be `stuck`: the agent was to be deleted, and its archive could not be
 * removed.
 */
export function hasEnded({ status, completedAt }: Agent): boolean {
  return isFinal(status) || completedAt !== undefined
}

/** The last progress report of an agent to its task: it has completed, failed or terminated. */
export interface Farewell {
  readonly status: FinalStatus
  readonly message: string
}

/** The facts about an agent's end, known when its scope has been closed. `endingOf` decides the final status from them. */
export interface LastDays {
  /** Ebb ended the agent, for example by a stop, a deletion, a reset or its own exit. */
  readonly wasStopped: boolean
  /** Ebb ended the agent because it broke a rule: it ran too long, was silent too long, or wrote too much. */
  readonly violation?: AgentError
  readonly result?: AgentResult
  /** The end that the agent reported to its task. */
  readonly farewell?: Farewell
  readonly exit?: { readonly code: number | null; readonly signal: string | null }
  /** The exit came after Ebb had begun to end the agent, so it says nothing about the agent's work. */
  readonly isExitOurs?: boolean
  /** The supervisor that launched the agent is gone. Another one adopted the agent, or recovers it. */
  readonly isOrphan?: boolean
}

export interface Ending {
  readonly status: FinalStatus
  readonly error?: AgentError
}

/**
 * The status follows from the agent's own result and from whether Ebb stopped it, never from the exit code alone: a claude that was stopped
 * can exit 0 with a success result.
 */
export function endingOf(known: LastDays): Ending {
  if (known.violation) return { status: 'failed', error: known.violation }
  if (known.wasStopped) return { status: 'terminated' }
  const farewell = known.farewell ?? known.result?.farewell
  if (farewell && farewell.status !== 'completed') return reportedFailure(farewell)
  // An exit that Ebb caused says nothing about the agent's work.
  const ownExit = known.isExitOurs ? undefined : known.exit
  if (known.result) return ownEnding(known.result, ownExit)
  if (farewell) return ownEnding({ isSuccess: true }, ownExit)
  if (known.exit?.code === 0) return { status: 'completed' }
  if (known.exit) return { status: 'failed', error: exitError(known.exit) }
  if (known.isOrphan)
    return { status: 'failed', error: { name: 'supervisor_lost', message: 'The supervisor of this agent died, and the agent was ended.' } }
  return { status: 'failed', error: { name: 'unknown_end', message: 'The agent is gone, and how it ended is not known.' } }
}

/** The agent's own report to its task beats the result of its program, which knows only the conversation. */
function reportedFailure({ status, message }: Farewell): Ending {
  return status === 'terminated' ? { status } : { status: 'failed', error: { name: 'agent_failed', message } }
}

function ownEnding(result: AgentResult, exit: LastDays['exit']): Ending {
  if (!result.isSuccess)
    return { status: 'failed', error: result.error ?? { name: 'agent_failed', message: 'The agent reported that it failed.' } }
  // An agent can report success and then crash. The crash came later, so it decides.
  if (exit && exit.code !== 0 && exit.code !== null) return { status: 'failed', error: exitError(exit) }
  return { status: 'completed' }
}

function exitError(exit: { readonly code: number | null; readonly signal: string | null }): AgentError {
  return exit.signal === null
    ? { name: 'exit_code', message: `The agent exited with code ${exit.code}.` }
    : { name: 'signal', message: `The agent was ended by ${exit.signal}, which Ebb did not send.` }
}

/** What is left of stuck agents that have no open resources: their archives, by agent id. An archive is not a resource. */
export function stuckArchives(agents: readonly { readonly id: string }[]): Map<string, readonly string[]> {
  return new Map(agents.map(({ id }) => [id, [`archive of agent ${id}: it could not be removed`]]))
}
