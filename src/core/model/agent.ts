/** One run of a coding agent, from launch to the proof that it is gone. */

export const agentStatuses = ['initializing', 'running', 'stopping', 'completed', 'failed', 'terminated', 'stuck'] as const
export type AgentStatus = (typeof agentStatuses)[number]

/** The statuses an agent does not leave; `stuck` it does, once it could be released after all. */
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

/** What an agent said of its own work, in its last words. */
export interface AgentResult {
  readonly isSuccess: boolean
  readonly error?: AgentError
  /** Not its program said so, but the agent itself, to its task; by then it is ended. */
  readonly farewell?: Farewell & { readonly by: string }
}

/** The part of a configuration that is kept with the agent; never environment values. */
export interface KeptConfiguration {
  readonly workingDirectory?: string
  readonly conversationName?: string
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly sessionId?: string
  readonly model?: string
  readonly limits?: { readonly memoryBytes?: number; readonly pids?: number; readonly logBytes?: number }
  /** Milliseconds; for whoever adopts it. */
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

/** Its end is on record. It may be `stuck` all the same: when it was to be deleted, and its archive could not be. */
export function hasEnded({ status, completedAt }: Agent): boolean {
  return isFinal(status) || completedAt !== undefined
}

/** The last report of an agent to its task. */
export interface Farewell {
  readonly status: FinalStatus
  readonly message: string
}

/** What is known of an agent when its scope has been closed. */
export interface LastDays {
  /** We ended it, by a stop, a deletion, a reset or our own exit. */
  readonly wasStopped: boolean
  /** We ended it because it broke a rule: too long, too silent, too much. */
  readonly violation?: AgentError
  readonly result?: AgentResult
  /** What it told its task at last. */
  readonly farewell?: Farewell
  readonly exit?: { readonly code: number | null; readonly signal: string | null }
  /** It came when we had already begun to end it. */
  readonly isExitOurs?: boolean
  /** Its supervisor died, and another one speaks for it. */
  readonly isOrphan?: boolean
}

export interface Ending {
  readonly status: FinalStatus
  readonly error?: AgentError
}

/**
 * By the agent's own result and our own record of having stopped it, never by the exit code alone: a claude that was
 * stopped can exit 0 with a success result.
 */
export function endingOf(days: LastDays): Ending {
  if (days.violation) return { status: 'failed', error: days.violation }
  if (days.wasStopped) return { status: 'terminated' }
  const farewell = days.farewell ?? days.result?.farewell
  if (farewell && farewell.status !== 'completed') return told(farewell)
  // How it left when it was shown the door says nothing of its work.
  const ownExit = days.isExitOurs ? undefined : days.exit
  if (days.result) return ownEnding(days.result, ownExit)
  if (farewell) return ownEnding({ isSuccess: true }, ownExit)
  if (days.exit?.code === 0) return { status: 'completed' }
  if (days.exit) return { status: 'failed', error: exitError(days.exit) }
  if (days.isOrphan)
    return { status: 'failed', error: { name: 'supervisor_lost', message: 'The supervisor of this agent died, and the agent was ended.' } }
  return { status: 'failed', error: { name: 'unknown_end', message: 'The agent is gone, and nobody saw how it ended.' } }
}

/** It knows best that it did not do what it was deployed for, whatever its program thinks of the conversation. */
function told({ status, message }: Farewell): Ending {
  return status === 'terminated' ? { status } : { status: 'failed', error: { name: 'agent_failed', message } }
}

function ownEnding(result: AgentResult, exit: LastDays['exit']): Ending {
  if (!result.isSuccess)
    return { status: 'failed', error: result.error ?? { name: 'agent_failed', message: 'The agent reported that it failed.' } }
  // It said that all was well, and then died of something: the last thing that happened is the truth.
  if (exit && exit.code !== 0 && exit.code !== null) return { status: 'failed', error: exitError(exit) }
  return { status: 'completed' }
}

function exitError(exit: { readonly code: number | null; readonly signal: string | null }): AgentError {
  return exit.signal === null
    ? { name: 'exit_code', message: `The agent exited with code ${exit.code}.` }
    : { name: 'signal', message: `The agent was ended by ${exit.signal}, which Ebb did not send.` }
}

/** What is left of stuck agents whose resources are all gone: the archive, which is no resource. By agent id. */
export function stuckArchives(agents: readonly { readonly id: string }[]): Map<string, readonly string[]> {
  return new Map(agents.map(({ id }) => [id, [`archive of agent ${id}: it could not be removed`]]))
}
