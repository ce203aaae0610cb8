import type { Status } from '../../core/engine/api.ts'
import type { Agent } from '../../core/model/agent.ts'
import { isEbbError } from '../../core/model/errors.ts'
import type { Client } from '../client.ts'

/** Everything that `ebb top` shows, as the server told it at one time. */
export interface Snapshot {
  readonly at: string
  readonly url: string
  readonly agents: readonly LiveAgent[]
  readonly totals: {
    readonly agents: number
    readonly messages: number
    /** Undefined where the server does not tell. */
    readonly processes?: number
    readonly rssBytes?: number
  }
  readonly status: Status
  readonly closes: readonly CloseUnderWay[]
}

export interface LiveAgent extends Agent {
  readonly processes?: number
  readonly rssBytes?: number
}

/** As the history has it. */
export interface CloseUnderWay {
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

/** A server that takes longer is not there, as far as a live view goes. */
const patienceMs = 5_000

/** Of the history, newest first, a few; what runs is at its beginning. */
const historyShown = 50

export async function takeSnapshot(client: Client, namespace: string | undefined, wall: () => string): Promise<Snapshot> {
  const signal = AbortSignal.timeout(patienceMs)
  const inside = namespace === undefined ? '' : `?namespace=${namespace}`
  const [agents, usage, status, history] = await Promise.all([
    client.get<readonly Agent[]>(`/agents/active${inside}`, signal),
    client.get<readonly Usage[]>('/agents/usage', signal).catch(unknownUsage),
    client.get<Status>(`/cleanup/status${inside}`, signal),
    client.get<readonly CloseUnderWay[]>(`/cleanup/history?limit=${historyShown}`, signal),
  ])
  const used = new Map(usage?.map((one) => [one.agentId, one]))
  const live = agents.map((agent): LiveAgent => {
    const { processes, rssBytes } = used.get(agent.id) ?? {}
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

/** A server of another version may not know the call, and takes its last word for an agent's id. */
function unknownUsage(error: unknown): undefined {
  if (isEbbError(error) && ['not_found', 'invalid_id', 'agent_not_found'].includes(error.code)) return undefined
  throw error
}
