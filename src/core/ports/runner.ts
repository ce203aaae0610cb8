import type { Configuration } from './provider.ts'

/**
 * An agent, as described to a runner: the fields of `POST /agent/stream` (docs/in-depth/runner.md), and the additional ones of Ebb's own
 * runners.
 */
export interface RunnerOrder {
  /** The id of the agent. Ebb's own runners use this id. Other runners assign one of their own. */
  readonly agentId: string
  readonly type: string
  readonly prompt: string
  readonly configuration: Configuration
}

/** The header in which Ebb's own runners name their installation. */
export const installationHeader = 'x-ebb-installation'

/** A comment line between two `data` lines. It means that the output has a carriage return there, which would end a line of SSE. */
export const joinedByReturn = ': carriage return'
