import type { Trigger } from '../../../src/core/model/close-request.ts'
import type { LadderStep } from '../../../src/core/model/ladder.ts'
import type { ResourceProgress } from '../../../src/core/model/progress.ts'
import { fetchResources } from './calls.ts'
import { ApiError, call, closeTimeoutMs, sentenceOf } from './client.ts'
import { wasDeleted } from './deleted.ts'
import type { Agent, AgentResource, Report } from './shapes.ts'

/** HTTP calls about closes, the system status and the reaper, with the types of their answers. */

export type { LadderStep, ResourceProgress, Trigger }

export interface Close {
  readonly id: string
  readonly state: 'running' | 'done'
  readonly trigger: Trigger
  readonly scope: Report['scope']
  readonly startedAt: string
  readonly duration: number
  readonly success: boolean
  readonly released: number
  readonly stuck: number
  readonly errors: readonly string[]
  readonly escalation?: LadderStep
}

export interface CloseDetail extends Close {
  readonly report?: Report
  readonly progress?: readonly ResourceProgress[]
}

export interface SystemStatus {
  readonly isClean: boolean
  readonly agentCount: number
  readonly messageCount: number
  readonly runningProcesses: number
  readonly activeSubscriptions: number
  readonly resources: Readonly<Record<string, { readonly held: number; readonly closing: number; readonly stuck: number }>>
  readonly leaks: readonly string[]
  readonly stuck: readonly string[]
  readonly heldBack: readonly string[]
}

export interface Health {
  readonly status: 'ok' | 'broken'
  readonly pid: number
  readonly uptime: number
  readonly memoryUsage: { readonly rss: number }
  readonly activeAgents: number
  readonly totalAgents: number
  readonly databaseStatus: string
  readonly startedAt: string
  readonly nodeVersion: string
  readonly instanceId: string
  readonly containment: string
  readonly stuck: number
  readonly problems?: readonly string[]
  readonly version: string
  readonly host: { readonly name: string; readonly platform: string }
  readonly placements: readonly string[]
  readonly testEndpoints: boolean
  readonly runner: boolean
}

export interface Orphan {
  readonly kind: string
  readonly name: string
  readonly why: string
  readonly detail: string
}

export interface ReaperPass {
  readonly found: readonly Orphan[]
  readonly released: readonly Orphan[]
  readonly left: readonly Orphan[]
}

type Signal = AbortSignal | undefined

/** Filters the history of closes. An empty text does not filter. */
export interface WhichCloses {
  readonly trigger?: string
  readonly outcome?: string
  readonly hadResources?: true
}

export const fetchCloses = (limit: number, { trigger, outcome, hadResources }: WhichCloses, signal: Signal): Promise<readonly Close[]> =>
  call('GET', '/cleanup/history', {
    query: { limit, trigger: trigger || undefined, outcome: outcome || undefined, hadResources },
    signal,
  })

export const fetchClose = (id: string, signal: Signal): Promise<CloseDetail> =>
  call('GET', `/cleanup/history/${encodeURIComponent(id)}`, { signal })

export const fetchStatus = (namespace: string | undefined, signal: Signal): Promise<SystemStatus> =>
  call('GET', '/cleanup/status', { query: { namespace }, signal })

/** A broken server answers with an error status and the list of its problems. */
export const fetchHealth = (signal: Signal): Promise<Health> => call('GET', '/health', { signal })

export interface NotReleased {
  readonly agent: Agent
  /** The agent's resources that are stuck or held back. */
  readonly left: readonly AgentResource[]
  /** Why the resources could not be read, as a sentence. */
  readonly problem?: string
}

/** The number of agents whose resources are fetched, at most. */
const mostInspected = 20

export async function fetchNotReleased(signal: Signal): Promise<readonly NotReleased[]> {
  const agents = await call<readonly Agent[]>('GET', '/agents', { query: { status: 'stuck,stopping', limit: mostInspected }, signal })
  const found: NotReleased[] = []
  // The agents are requested one at a time, so that an agent that was deleted meanwhile is skipped.
  for (const agent of agents) {
    if (wasDeleted(agent.id)) continue
    try {
      const resources = await fetchResources(agent.id, signal)
      const left = resources.filter(({ state, error }) => state === 'stuck' || (state === 'closing' && error !== undefined))
      if (left.length > 0 || agent.status === 'stuck') found.push({ agent, left })
    } catch (error) {
      if (signal?.aborted) throw error
      // 404: the agent was deleted meanwhile. Any other failure says nothing about the agent's resources.
      if (!(error instanceof ApiError && error.status === 404)) found.push({ agent, left: [], problem: sentenceOf(error) })
    }
  }
  return found
}

export const runReaper = (dryRun: boolean): Promise<ReaperPass> =>
  call('POST', '/reaper/run', { body: { dryRun }, timeoutMs: closeTimeoutMs })

/** Ends all agents, and deletes their rows and archives. */
export const resetEnvironment = (namespace: string | undefined): Promise<{ readonly id: string }> =>
  call('POST', '/test/reset-environment', { body: { waitForCompletion: false, ...(namespace !== undefined && { namespace }) } })

/** Ends all running agents, and keeps their rows and archives. */
export const endAll = (namespace: string | undefined): Promise<Report> =>
  call('POST', '/cleanup', { body: { scope: 'all', ...(namespace !== undefined && { namespace }) }, timeoutMs: closeTimeoutMs })
