import { useCallback, useEffect, useRef, useState } from 'react'
import { fetchAgent, fetchAgentPage, fetchAllActive } from '../api/calls.ts'
import { ApiError } from '../api/client.ts'
import { wasDeleted } from '../api/deleted.ts'
import { useLive } from '../api/live.ts'
import { useLoaded } from '../api/loaded.ts'
import { type Pace, paced } from '../api/pace.ts'
import { type Agent, type AgentStatus, isFinal } from '../api/shapes.ts'

/** The page size of requests, and the number of agents shown at most (the newest). */
const pageSize = 250
export const mostAgents = 5_000

/** A prompt may be a megabyte long. Its beginning is enough to search for an agent and to name it. */
const keptPrompt = 2_000

/** If more agents than this changed at once, the list is fetched again instead of each agent. */
const mostSingles = 8
const pollMs = 2_000

export interface AgentList {
  readonly agents: readonly Agent[]
  readonly isLoaded: boolean
  /** True when there are more agents than the list holds. */
  readonly isCut: boolean
  readonly problem: string | undefined
  reload(): void
}

/** All agents, newest first. Kept current by events, by polling the active agents, and by a full load after every reconnection. */
export function useAgents(): AgentList {
  const held = useRef(new Map<string, Agent>())
  const gone = useRef(new Set<string>())
  const dirty = useRef(new Set<string>())
  const [agents, setAgents] = useState<readonly Agent[]>([])
  const frame = useRef(0)

  /** Updates the state at most once per animation frame. */
  const publish = useCallback(() => {
    if (frame.current !== 0) return
    frame.current = requestAnimationFrame(() => {
      frame.current = 0
      setAgents([...held.current.values()].sort(newestFirst))
    })
  }, [])
  useEffect(() => () => cancelAnimationFrame(frame.current), [])

  const put = useCallback(
    (agent: Agent) => {
      if (gone.current.has(agent.id)) return
      held.current.set(agent.id, cut(agent))
      publish()
    },
    [publish],
  )

  const reload = useRef(() => {})
  const all = useLoaded('agents', async (signal) => {
    gone.current.clear()
    const found = new Map<string, Agent>()
    let cursor: string | undefined
    do {
      const page = await fetchAgentPage(pageSize, cursor, signal)
      for (const agent of page.agents) if (!gone.current.has(agent.id)) found.set(agent.id, cut(agent))
      cursor = page.next
      // Show the first page before the others have arrived.
      if (held.current.size === 0) {
        held.current = new Map(found)
        publish()
      }
    } while (cursor !== undefined && found.size < mostAgents)
    for (const id of gone.current) found.delete(id)
    held.current = found
    publish()
    return { isCut: cursor !== undefined }
  })

  useEffect(() => {
    reload.current = all.reload
  }, [all.reload])

  /** Removes an agent that the server no longer knows, in case its deletion event was missed. */
  const forget = useCallback(
    (id: string) => (error: unknown) => {
      if (error instanceof ApiError && error.status === 404) held.current.delete(id)
    },
    [],
  )

  /** Fetches the changed agents again, and removes those that no longer exist. */
  const refresh = useCallback(async () => {
    const ids = [...dirty.current]
    dirty.current.clear()
    // A failed request counts as no page. The ids of its agents are then put back, so that they are fetched later.
    const page = await fetchAgentPage(pageSize, undefined, undefined).catch(() => undefined)
    if (!page) {
      // The agents that could not be fetched are fetched on the next event or the next poll of the active agents.
      for (const id of ids) dirty.current.add(id)
      return
    }
    const { agents: newest, next } = page
    const found = new Set(newest.map(({ id }) => id))
    for (const agent of newest) put(agent)
    const rest = ids.filter((id) => held.current.has(id) && !found.has(id))
    if (next === undefined) for (const id of rest) held.current.delete(id)
    else if (rest.length > mostSingles) reload.current()
    else for (const id of rest) if (!wasDeleted(id)) await fetchAgent(id, undefined).then(put, forget(id))
    publish()
  }, [put, publish, forget])
  const pace = useRef<Pace>(undefined)
  useEffect(() => {
    pace.current = paced(refresh)
    return () => pace.current?.stop()
  }, [refresh])
  const change = useCallback((id: string) => {
    dirty.current.add(id)
    pace.current?.soon()
  }, [])

  // Message counts are in no broadcast event, so the active agents are polled.
  const activeAgents = useLoaded(
    'active agents',
    async (signal) => {
      const { agents: active, isAll } = await fetchAllActive(pageSize, mostAgents, signal)
      const ids = new Set(active.map(({ id }) => id))
      for (const agent of active) put(agent)
      // An agent held as active but missing in this answer has ended or was deleted: fetch it again.
      if (isAll) for (const { id, status } of held.current.values()) if (!isFinal(status) && !ids.has(id)) change(id)
    },
    { everyMs: pollMs },
  )

  useLive<{ agent: Agent }>('agent:created', ({ agent }) => put(agent))
  useLive<{ agentId: string; status: AgentStatus }>('agent:updated', ({ agentId, status }) => {
    const known = held.current.get(agentId)
    if (known) put({ ...known, status })
    change(agentId)
  })
  useLive<{ agentId: string }>('agent:deleted', ({ agentId }) => {
    gone.current.add(agentId)
    held.current.delete(agentId)
    publish()
  })

  return {
    agents,
    isLoaded: all.data !== undefined,
    isCut: all.data?.isCut ?? false,
    problem: all.sentence ?? activeAgents.sentence,
    reload: () => {
      all.reload()
      activeAgents.reload()
    },
  }
}

function newestFirst(a: Agent, b: Agent): number {
  return a.createdAt < b.createdAt ? 1 : a.createdAt > b.createdAt ? -1 : 0
}

function cut(agent: Agent): Agent {
  if (agent.session.prompt.length <= keptPrompt) return agent
  return { ...agent, session: { ...agent.session, prompt: agent.session.prompt.slice(0, keptPrompt) } }
}
