import type { Agent, AgentStatus } from '../api/shapes.ts'
import { queryText } from '../query.ts'

/** Which agents the list shows. An empty text does not filter. */
export interface Filter {
  readonly status: string
  readonly provider: string
  readonly namespace: string
  readonly search: string
}

const active: readonly AgentStatus[] = ['initializing', 'running', 'stopping', 'stuck']

const groups: Readonly<Record<string, readonly AgentStatus[]>> = {
  active,
  // The former name of `active`, which bookmarks may contain.
  living: active,
  ended: ['completed', 'failed', 'terminated'],
}

export function matches(agent: Agent, { status, provider, namespace, search }: Filter): boolean {
  if (status !== '' && !(groups[status]?.includes(agent.status) ?? agent.status === status)) return false
  if (provider !== '' && agent.type !== provider) return false
  if (namespace !== '' && agent.namespace !== namespace) return false
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return true
  const text = [agent.id, agent.name, agent.session.configuration.conversationName, agent.requestId, agent.taskId, agent.session.prompt]
    .join(' ')
    .toLowerCase()
  return words.every((word) => text.includes(word))
}

export function filterOf(query: URLSearchParams): Filter {
  return {
    status: query.get('status') ?? '',
    provider: query.get('provider') ?? '',
    namespace: query.get('namespace') ?? '',
    search: query.get('q') ?? '',
  }
}

/** The filter as a query for the address, so that Back restores the same list. */
export function queryOf({ status, provider, namespace, search }: Filter): string {
  return queryText({ status, provider, namespace, q: search })
}
