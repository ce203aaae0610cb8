import type { Configuration } from './provider.ts'

/** An agent, as a runner host is told of it: the fields of `POST /agent/stream` (docs/in-depth/runner.md), and those of Ebb's runners. */
export interface RunnerOrder {
  /** Ours are asked to use this id; others give one of their own. */
  readonly agentId: string
  readonly type: string
  readonly prompt: string
  readonly configuration: Configuration
}

/** Where a runner answers. Its token is a setting: it is never in the ledger. */
export interface RunnerPlace {
  readonly url: string
}

/** The resource that gives others of the same plan an address; what its handle is. */
export const addressLabel = 'task'

export interface AddressHandle {
  readonly address: string
}

/** What the ledger holds of an agent at a runner: enough to find it again. The address is known before, or given by its plan. */
export type RemoteAgentSpec =
  | { readonly installation: string; readonly url: string }
  | { readonly installation: string; readonly port: number; readonly task?: RunnersTask }

/** Where the task is looked for in which the runner itself runs. */
export interface RunnersTask {
  readonly cluster: string
  readonly taskDefinition: string
  readonly region?: string
}

/** What starting it takes; in memory only. */
export interface RemoteAgentLaunch {
  readonly order: RunnerOrder
}

/** A call to a runner: where, as whom, and how long somebody waits. */
export interface RunnerCall {
  readonly place: RunnerPlace
  readonly token: string | undefined
  readonly signal: AbortSignal
}

/** What comes of an agent: whole lines and the beginnings of long ones, byte for byte; then how it ended. */
export type RunnerNews =
  | { readonly is: 'output'; readonly bytes: Uint8Array }
  /** A sign of life without words. */
  | { readonly is: 'ping' }
  | { readonly is: 'complete' }
  | { readonly is: 'error'; readonly message: string }

export interface RunnerStream {
  /** As the runner calls it. */
  readonly agentId: string
  /** Ends after `complete` or `error`, and throws when the connection is lost before. */
  readonly news: AsyncIterable<RunnerNews>
  /** Closes the connection. The runner then stops the agent: the runner protocol says so (docs/in-depth/runner.md). */
  hangUp(): void
}

/** Everything that changes something at a runner, one method per effect: the crash matrix comes in here. */
export interface Runner {
  /** Settles when the agent runs. */
  stream(call: RunnerCall, order: RunnerOrder): Promise<RunnerStream>
  /** Settles when the runner says that its processes are proven gone, or that it has no such agent. */
  stop(call: RunnerCall, agentId: string, isForced: boolean): Promise<'stopped' | 'not-found'>
}

export interface RunnerHealth {
  readonly activeAgents: number
  /** Ours say which installation answers: after a change of address it may be another. */
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

/** Looks change nothing. They throw when there is no answer, or none that can be understood: that is unknown, never gone (G4). */
export interface RunnerQueries {
  health(call: RunnerCall): Promise<RunnerHealth>
  status(call: RunnerCall, agentId: string): Promise<RunnerStatus>
}

/** The runner answers, and does not let us in: to ask again helps nobody. */
export class RunnerDenied extends Error {
  override readonly name = 'RunnerDenied'
}

/** There was no answer, or none to its end: what is there is not known. */
export class RunnerUnreachable extends Error {
  override readonly name = 'RunnerUnreachable'
}

/** The header by which our own runners say who answers. */
export const installationHeader = 'x-ebb-installation'

/** After a `data` line: the output has a carriage return there, which would end a line of SSE. What follows has another `data` line. */
export const joinedByReturn = ': carriage return'
