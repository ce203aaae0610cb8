import { useState } from 'react'
import { useLive } from '../api/live.ts'
import { useLoaded } from '../api/loaded.ts'
import type { Agent } from '../api/shapes.ts'
import { fetchNewest, remember } from '../cleanup/scope-names.ts'

/** The chosen namespace, the namespaces of the newest agents (loaded once), and those of agents launched since. */
export function useNamespaces(chosen: string | undefined): readonly string[] {
  const [created, setCreated] = useState<ReadonlySet<string>>(new Set())
  const { data = [] } = useLoaded('namespaces', async (signal) => (await fetchNewest(signal)).map(({ namespace }) => namespace))
  useLive<{ readonly agent: Agent }>('agent:created', ({ agent }) => {
    remember([agent])
    setCreated((known) => (known.has(agent.namespace) ? known : new Set([...known, agent.namespace])))
  })
  return [...new Set([...data, ...created, ...(chosen === undefined ? [] : [chosen])])].toSorted()
}
