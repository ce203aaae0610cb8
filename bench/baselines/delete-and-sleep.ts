import { AgentProxy } from './agent-proxy.ts'
import { type Algorithm, prescribedDelay } from './algorithms.ts'

/**
 * Deletes every agent without waiting for its end, marks its row as terminated, sleeps for 1.5 s, and checks the list of agents, which excludes
 * terminated ones. A remaining agent is only a warning.
 */
export const deleteAndSleep: Algorithm = {
  name: 'delete-and-sleep',
  title: 'delete, sleep 1.5 s',
  how: 'stop is sent and not awaited, the row is marked as terminated, sleep for 1.5 s, then check a list of agents that excludes terminated ones',
  start: async (crew) => {
    const proxy = new AgentProxy()
    const rows = new Map<string, 'running' | 'terminated'>()
    for (const [index, launch] of crew.launches.entries()) {
      await proxy.start(String(index), launch)
      rows.set(String(index), 'running')
    }
    return {
      cleanUp: async () => {
        for (const id of rows.keys()) {
          void proxy.stopOrKill(id)
          rows.set(id, 'terminated')
        }
        await prescribedDelay(1_500)
        return [...rows.values()].every((status) => status === 'terminated')
      },
    }
  },
}
