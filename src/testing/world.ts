import type { Agent, AgentStatus } from '../core/model/agent.ts'
import { type Client, clientOf, type Target } from './request.ts'

/** Observes what exists on a server, and names each thing. */

export type AgentSummary = Pick<Agent, 'id' | 'type' | 'status' | 'namespace'>

/** The body of `GET /api/cleanup/status`. */
export interface CleanupStatus {
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

export interface SystemState {
  readonly agents: readonly AgentSummary[]
  readonly status: CleanupStatus
}

/** The processes of at most this many agents are listed; the rest is only counted. */
const maxAgentsListed = 20

export async function observe(client: Client): Promise<SystemState> {
  const agents = await client.ask<readonly AgentSummary[]>('get', '/api/agents')
  // The status is read after the agents, and decides whether any exist. It does not include what another running Ebb owns.
  const status = await client.ask<CleanupStatus>('get', '/api/cleanup/status')
  return { agents: status.agentCount === 0 ? [] : agents, status }
}

export const hasEnded = (status: AgentStatus): boolean => status === 'completed' || status === 'failed' || status === 'terminated'

export const nameOf = ({ id, type, status }: AgentSummary): string => `agent ${id} (${type}, ${status})`

/** Names everything that exists, the rows of ended agents included. Empty when the server is clean. */
export async function issuesOf(client: Client, { agents, status }: SystemState): Promise<readonly string[]> {
  if (status.isClean) return []
  const issues = [...agents.map(nameOf), ...(await livingIssues(client, agents, status))]
  if (agents.length === 0) issues.push(...counted(status.agentCount, 'agent'), ...counted(status.messageCount, 'message'))
  if (issues.length > 0) return issues
  return Object.entries(status.resources).map(
    ([kind, { held, closing, stuck }]) => `${kind}: ${held} held, ${closing} closing, ${stuck} stuck`,
  )
}

/** Names what is still running or could not be released: agents, processes, subscriptions. The row of an ended agent is not a leak. */
export async function leaksOf(client: Client, { agents, status }: SystemState): Promise<readonly string[]> {
  const living = agents.filter((agent) => !hasEnded(agent.status))
  return [...living.map(nameOf), ...(await livingIssues(client, agents, status))]
}

async function livingIssues(client: Client, agents: readonly AgentSummary[], status: CleanupStatus): Promise<readonly string[]> {
  return [
    ...(status.runningProcesses === 0 ? [] : await processes(client, agents, status.runningProcesses)),
    ...counted(status.activeSubscriptions, 'active subscription'),
    ...status.stuck.map((one) => `stuck: ${one}`),
    ...status.heldBack.map((one) => `held back: ${one}`),
    ...status.leaks.map((one) => `leak: ${one}`),
  ]
}

interface Processes {
  readonly processes: readonly { readonly pid: number; readonly command: string }[]
}

async function processes(client: Client, agents: readonly AgentSummary[], count: number): Promise<readonly string[]> {
  const living = agents.filter(({ status }) => !hasEnded(status)).slice(0, maxAgentsListed)
  const named = await Promise.all(
    living.map(async ({ id }) => {
      // The agent may have been deleted since it was listed.
      const { isOk, body } = await client.call('get', `/api/agents/${id}/process`)
      return isOk ? (body as Processes).processes.map(({ pid, command }) => `process ${pid} (${command})`) : []
    }),
  )
  const all = named.flat()
  return all.length >= count ? all : [...all, ...counted(count - all.length, all.length === 0 ? 'running process' : 'more running process')]
}

function counted(count: number, what: string): readonly string[] {
  return count === 0 ? [] : [many(count, what)]
}

export const many = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : what.endsWith('s') ? 'es' : 's'}`

/** Throws an error that names each thing that is left, unless the server is clean: no agent, message, process, subscription or leak. */
export async function verifyTestIsolation(target: Target): Promise<void> {
  const client = clientOf(target)
  const state = await observe(client)
  if (state.status.isClean) return
  throw new Error(`Test isolation violated: ${(await issuesOf(client, state)).join('; ')}.`)
}
