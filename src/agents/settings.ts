import type { SpawnRule } from '../core/model/spawn-rule.ts'

/** What a task may take, and what its agents owe it. */
export interface TaskLimits {
  /** Agents that live in one task at the same time. */
  readonly concurrent: number
  /** Agents that are ever deployed into one task. */
  readonly agents: number
  /** Generations: those whom the orchestrator deploys are the first. */
  readonly depth: number
  /** None allow everything. */
  readonly spawnRules: readonly SpawnRule[]
  /** How long an agent may report nothing. */
  readonly stuckThresholdMs: number
  readonly stuckAction: 'report' | 'end'
}

/** What an agent may take, unless its launch says otherwise. */
export interface Caps {
  /** Agents that live at the same time. */
  readonly maxAgents: number
  /** On the disk of the home, or nothing is launched. */
  readonly minFreeBytes: number
  /** Of each output stream. */
  readonly logBytes: number
  readonly messages: number
  readonly timeoutMs: number
  readonly idleMs: number
}
