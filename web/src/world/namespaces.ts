import { useState } from 'react'
import { useLive } from '../api/live.ts'
import { useLoaded } from '../api/loaded.ts'
import type { Agent } from '../api/shapes.ts'
import { fetchNewest, remember } from '../cleanup/calling.ts'

/** The one that is chosen, and those that there are agents of: of the newest ones, asked for once, and of all launched from then on. */
export function useNamespaces(chosen: string | undefined): readonly string[] {
  const [heard, setHeard] = useState<ReadonlySet<string>>(new Set())
  const { data = [] } = useLoaded('namespaces', async (signal) => (await fetchNewest(signal)).map(({ namespace }) => namespace))
  useLive<{ readonly agent: Agent }>('agent:created', ({ agent }) => {
    remember([agent])
    setHeard((known) => (known.has(agent.namespace) ? known : new Set([...known, agent.namespace])))
  })
  return [...new Set([...data, ...heard, ...(chosen === undefined ? [] : [chosen])])].toSorted()
}
