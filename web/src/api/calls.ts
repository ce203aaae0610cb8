import { ask, call, closeTimeoutMs, launchTimeoutMs } from './client.ts'
import type { Agent, AgentResource, LaunchBody, Message, ProcessObservation, Provider, Report, Usage } from './shapes.ts'

/** HTTP calls about agents, one function per route. */

type Signal = AbortSignal | undefined

export async function fetchAgentPage(
  limit: number,
  cursor: string | undefined,
  signal: Signal,
): Promise<{ agents: readonly Agent[]; next: string | undefined }> {
  const { body, headers } = await ask<Agent[]>('GET', '/agents', { query: { limit, cursor }, signal })
  return { agents: body, next: headers.get('X-Next-Cursor') ?? undefined }
}

/** All active agents, or the newest `most` of them. */
export async function fetchAllActive(
  pageSize: number,
  most: number,
  signal: Signal,
): Promise<{ agents: readonly Agent[]; isAll: boolean }> {
  const agents: Agent[] = []
  let cursor: string | undefined
  do {
    const { body, headers } = await ask<readonly Agent[]>('GET', '/agents/active', { query: { limit: pageSize, cursor }, signal })
    agents.push(...body)
    cursor = headers.get('X-Next-Cursor') ?? undefined
  } while (cursor !== undefined && agents.length < most)
  return { agents, isAll: cursor === undefined }
}

export const fetchUsage = (signal: Signal): Promise<readonly Usage[]> => call('GET', '/agents/usage', { signal })

export const fetchAgent = (id: string, signal: Signal): Promise<Agent> => call('GET', `/agents/${encodeURIComponent(id)}`, { signal })

export const fetchMessages = (id: string, since: number, limit: number, signal: Signal): Promise<readonly Message[]> =>
  call('GET', `/agents/${encodeURIComponent(id)}/messages`, { query: { since, limit }, signal })

export const fetchProcesses = (id: string, signal: Signal): Promise<ProcessObservation> =>
  call('GET', `/agents/${encodeURIComponent(id)}/process`, { signal })

export const fetchResources = (id: string, signal: Signal): Promise<readonly AgentResource[]> =>
  call('GET', `/agents/${encodeURIComponent(id)}/resources`, { signal })

export async function fetchProviders(signal: Signal): Promise<readonly Provider[]> {
  return (await call<{ providers: readonly Provider[] }>('GET', '/providers', { signal })).providers
}

export const launchAgent = (body: LaunchBody): Promise<{ readonly id: string }> =>
  call('POST', '/agents', { body, timeoutMs: launchTimeoutMs })

export const stopAgent = (id: string, force: boolean): Promise<Report> =>
  call('POST', `/agents/${encodeURIComponent(id)}/stop`, { body: { force }, timeoutMs: closeTimeoutMs })

export const deleteAgent = (id: string, force = false): Promise<void> =>
  call('DELETE', `/agents/${encodeURIComponent(id)}`, { query: { force: force || undefined }, timeoutMs: closeTimeoutMs })
