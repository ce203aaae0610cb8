import type { SpawnRule } from '../core/model/spawn-rule.ts'

/** Limits of one task. */
export interface TaskLimits {
  /** The most agents that may run in one task at the same time. */
  readonly concurrent: number
  /** The most agents that may ever be deployed into one task. */
  readonly agents: number
  /** The most generations of agents. Agents deployed by the orchestrator are the first. */
  readonly depth: number
  /** Which agent types may deploy which. An empty list allows everything. */
  readonly spawnRules: readonly SpawnRule[]
  /** How long an agent may send no report before it counts as stuck. */
  readonly stuckThresholdMs: number
  readonly stuckAction: 'report' | 'end'
}

/** Default limits of an agent; a launch can override some of them. */
export interface Caps {
  /** The most agents that may run at the same time. */
  readonly maxAgents: number
  /** The least free space on the disk of the home; with less, launches are refused. */
  readonly minFreeBytes: number
  /** The most bytes that an agent may write to each output stream. */
  readonly logBytes: number
  readonly messages: number
  readonly timeoutMs: number
  readonly idleMs: number
}
