import type { Status } from '../../core/engine/api.ts'
import type { Agent } from '../../core/model/agent.ts'
import { isEbbError } from '../../core/model/errors.ts'
import type { Client } from '../client/client.ts'

/** The data that `ebb top` shows, read from the server at one time. */
export interface Snapshot {
  readonly at: string
  readonly url: string
  readonly agents: readonly LiveAgent[]
  readonly totals: {
    readonly agents: number
    readonly messages: number
    /** The number of processes. Undefined if the server does not report the usage of agents. */
    readonly processes?: number
    readonly rssBytes?: number
  }
  readonly status: Status
  readonly closes: readonly RunningClose[]
}

export interface LiveAgent extends Agent {
  readonly processes?: number
  readonly rssBytes?: number
}

/** An entry of the close history that is still running. */
export interface RunningClose {
  readonly id: string
  readonly state: 'running' | 'done'
  readonly trigger: string
  readonly scope: { readonly kind: string; readonly id: string }
  readonly startedAt: string
}

interface Usage {
  readonly agentId: string
  readonly processes: number
  readonly rssBytes: number
}

/** How long a snapshot may take. A server that takes longer counts as lost. */
const patienceMs = 5_000

/** How many entries of the history are read. It is sorted newest first, so running closes are at its beginning. */
const historyShown = 50

export async function takeSnapshot(client: Client, namespace: string | undefined, wall: () => string): Promise<Snapshot> {
  const signal = AbortSignal.timeout(patienceMs)
  const inside = namespace === undefined ? '' : `?namespace=${namespace}`
  const [agents, usage, status, history] = await Promise.all([
    client.get<readonly Agent[]>(`/agents/active${inside}`, signal),
    client.get<readonly Usage[]>('/agents/usage', signal).catch(unknownUsage),
    client.get<Status>(`/cleanup/status${inside}`, signal),
    client.get<readonly RunningClose[]>(`/cleanup/history?limit=${historyShown}`, signal),
  ])
  const usageOf = new Map(usage?.map((entry) => [entry.agentId, entry]))
  const live = agents.map((agent): LiveAgent => {
    const { processes, rssBytes } = usageOf.get(agent.id) ?? {}
    return { ...agent, ...(processes !== undefined && { processes }), ...(rssBytes !== undefined && { rssBytes }) }
  })
  const sum = (pick: (agent: LiveAgent) => number | undefined): number => live.reduce((total, agent) => total + (pick(agent) ?? 0), 0)
  return {
    at: wall(),
    url: client.url,
    agents: live,
    totals: {
      agents: live.length,
      messages: sum(({ session }) => session.messageCount),
      ...(usage && { processes: sum(({ processes }) => processes), rssBytes: sum(({ rssBytes }) => rssBytes) }),
    },
    status,
    closes: history.filter(({ state }) => state === 'running'),
  }
}

/** A server of an older version has no `/agents/usage`, and answers that `usage` is no valid id of an agent. */
function unknownUsage(error: unknown): undefined {
  if (isEbbError(error) && ['not_found', 'invalid_id', 'agent_not_found'].includes(error.code)) return undefined
  throw error
}
