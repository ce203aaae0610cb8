import type { Label } from '../../core/ports/handles.ts'
import { kindName } from '../../core/ports/kind.ts'
import type { TreeHandle } from '../../core/ports/process.ts'
import type { RunnerOrder } from '../../core/ports/runner.ts'

/** Where a runner answers. Its token is a setting and never in the ledger. */
export interface RunnerPlace {
  readonly url: string
}

/** The handle of a resource that gives the address of a runner. */
export interface AddressHandle {
  readonly address: string
  /** The ECS task at the address, if the resource is one. */
  readonly arn?: string
}

/**
 * An agent at a runner in the ledger: enough to find it again. The address is known beforehand, or comes from another resource of the plan.
 */
export type RemoteAgentSpec =
  | { readonly installation: string; readonly url: string }
  | { readonly installation: string; readonly port: number; readonly task?: RunnersTask }

/** Where to look for the ECS task in which the runner itself runs. */
export interface RunnersTask {
  readonly cluster: string
  readonly taskDefinition: string
  readonly region?: string
}

/** The part of an agent's start that is not in the spec. It is kept only in memory. */
export interface RemoteAgentLaunch {
  readonly order: RunnerOrder
  /** The resource of the plan that gives the address of the runner, when the spec has no URL. */
  readonly runner?: Label<AddressHandle>
}

/** What the ledger records about an agent at a runner, step by step during its launch. */
export interface RemoteAgentDetail {
  readonly url: string
  /** The ECS task that was started for the runner. */
  readonly taskArn?: string
  /** The installation of the runner at the address, when the runner reports one. */
  readonly runner?: string
  /** The agent's id at the runner. Absent until the runner has answered. */
  readonly agentId?: string
}

export const remoteAgentKind = kindName<{
  spec: RemoteAgentSpec
  live: RemoteAgentLaunch
  detail: RemoteAgentDetail
  handle: TreeHandle
}>('remote-agent')

/** A call to a runner: its address, its token, and the signal that aborts it. */
export interface RunnerCall {
  readonly place: RunnerPlace
  readonly token: string | undefined
  readonly signal: AbortSignal
}

/**
 * One item of an agent's stream: output byte for byte, as whole lines or as the beginning of a long one, and finally how the agent ended.
 */
export type RunnerNews =
  | { readonly is: 'output'; readonly bytes: Uint8Array }
  /** A keep-alive without content. */
  | { readonly is: 'ping' }
  | { readonly is: 'complete' }
  | { readonly is: 'error'; readonly message: string }

export interface RunnerStream {
  /** The agent's id at the runner. */
  readonly agentId: string
  /** The events of the agent, which end with `complete` or `error`. Throws when the connection is lost before that. */
  readonly news: AsyncIterable<RunnerNews>
  /** Closes the connection. The runner then stops the agent, as the protocol requires (docs/in-depth/runner.md). */
  hangUp(): void
}

/**
 * Every call that changes something at a runner, one method per effect, so that the crash matrix can end the process around each of them
 * (G9).
 */
export interface Runner {
  /** Launches an agent and opens its stream. Settles when the agent runs. */
  stream(call: RunnerCall, order: RunnerOrder): Promise<RunnerStream>
  /** Stops an agent. Settles when the runner says that its processes are proven gone, or that it has no such agent. */
  stop(call: RunnerCall, agentId: string, isForced: boolean): Promise<'stopped' | 'not-found'>
}

export interface RunnerHealth {
  readonly activeAgents: number
  /** Ebb's own runners say which installation answers. After a change of address another installation may answer. */
  readonly installation?: string
}

export type RunnerStatus =
  | { readonly is: 'not-found'; readonly installation?: string }
  | {
      readonly is: 'known'
      readonly isAlive: boolean
      readonly exitCode: number | null
      readonly signal: string | null
      readonly installation?: string
    }

/** Queries that change nothing. They throw when there is no answer, or no valid one: the state is then unknown, not gone (G4). */
export interface RunnerQueries {
  health(call: RunnerCall): Promise<RunnerHealth>
  status(call: RunnerCall, agentId: string): Promise<RunnerStatus>
}

/** The runner answers and refuses access. Retrying does not help. */
export class RunnerDenied extends Error {
  override readonly name = 'RunnerDenied'
}

/** There was no answer, or no complete one. The state at the runner is unknown. */
export class RunnerUnreachable extends Error {
  override readonly name = 'RunnerUnreachable'
}
