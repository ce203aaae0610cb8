import { useCallback, useEffect, useRef, useState } from 'react'
import { fetchAgent, fetchAgentPage, fetchAllActive } from '../api/calls.ts'
import { ApiError } from '../api/client.ts'
import { wasDeleted } from '../api/deleted.ts'
import { useLive } from '../api/live.ts'
import { useLoaded } from '../api/loaded.ts'
import { type Pace, paced } from '../api/pace.ts'
import { type Agent, type AgentStatus, isFinal } from '../api/shapes.ts'

/** What is fetched at a time, and how many agents are shown at most: the newest. */
const pageSize = 250
export const mostAgents = 5_000

/** A prompt may be a megabyte; to find and to name an agent its beginning is enough. */
const keptPrompt = 2_000

/** When more than this many changed at once, one list is asked for instead of each. */
const mostSingles = 8
const pollMs = 2_000

export interface AgentList {
  readonly agents: readonly Agent[]
  readonly isLoaded: boolean
  /** There are more than are shown. */
  readonly isCut: boolean
  readonly problem: string | undefined
  reload(): void
}

/** Every agent, newest first, kept true by events, by a look at those that live, and by fetching again after a lost connection. */
export function useAgents(): AgentList {
  const held = useRef(new Map<string, Agent>())
  const gone = useRef(new Set<string>())
  const dirty = useRef(new Set<string>())
  const [agents, setAgents] = useState<readonly Agent[]>([])
  const frame = useRef(0)

  /** Many events in one frame are one picture. */
  const show = useCallback(() => {
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
      show()
    },
    [show],
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
      // The first page is there before the last has come.
      if (held.current.size === 0) {
        held.current = new Map(found)
        show()
      }
    } while (cursor !== undefined && found.size < mostAgents)
    for (const id of gone.current) found.delete(id)
    held.current = found
    show()
    return { isCut: cursor !== undefined }
  })

  useEffect(() => {
    reload.current = all.reload
  }, [all.reload])

  /** Deleted, and not heard of. */
  const forget = useCallback(
    (id: string) => (error: unknown) => {
      if (error instanceof ApiError && error.status === 404) held.current.delete(id)
    },
    [],
  )

  /** What changed, once more, whole; and who is not there any more goes. */
  const refresh = useCallback(async () => {
    const ids = [...dirty.current]
    dirty.current.clear()
    const page = await fetchAgentPage(pageSize, undefined, undefined).catch(() => undefined)
    if (!page) {
      // With the next event, or the next look at those that live.
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
    show()
  }, [put, show, forget])
  const pace = useRef<Pace>(undefined)
  useEffect(() => {
    pace.current = paced(refresh)
    return () => pace.current?.stop()
  }, [refresh])
  const change = useCallback((id: string) => {
    dirty.current.add(id)
    pace.current?.soon()
  }, [])

  // Counts of messages are in no broadcast.
  const living = useLoaded(
    'active agents',
    async (signal) => {
      const { agents: active, isAll } = await fetchAllActive(pageSize, mostAgents, signal)
      const ids = new Set(active.map(({ id }) => id))
      for (const agent of active) put(agent)
      // An answer that was on its way when an agent ended tells of it as it was.
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
    show()
  })

  return {
    agents,
    isLoaded: all.data !== undefined,
    isCut: all.data?.isCut ?? false,
    problem: all.sentence ?? living.sentence,
    reload: () => {
      all.reload()
      living.reload()
    },
  }
}

function newestFirst(one: Agent, other: Agent): number {
  return one.createdAt < other.createdAt ? 1 : one.createdAt > other.createdAt ? -1 : 0
}

function cut(agent: Agent): Agent {
  if (agent.session.prompt.length <= keptPrompt) return agent
  return { ...agent, session: { ...agent.session, prompt: agent.session.prompt.slice(0, keptPrompt) } }
}
