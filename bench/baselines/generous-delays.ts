import { AgentProxy } from './agent-proxy.ts'
import { type Algorithm, prescribedDelay } from './algorithms.ts'

const bufferMs = 1_000
const processExitDelayMs = 3_000
const retryDelayMs = 2_000
const maxRetries = 5

/** All agents at once: SIGTERM, up to 5 s, SIGKILL, a buffer of 1 s. Then 3 s for the processes to exit, and up to 5 checks, 2 s apart. */
export const generousDelays: Algorithm = {
  name: 'generous-delays',
  title: 'stop, generous delays, retries',
  how: 'SIGTERM, up to 5 s, SIGKILL, a buffer of 1 s, a delay of 3 s, then up to 5 checks of the list of agents, 2 s apart',
  start: async (crew) => {
    const proxy = new AgentProxy()
    const rows = new Set<string>()
    for (const [index, launch] of crew.launches.entries()) {
      await proxy.start(String(index), launch)
      rows.add(String(index))
    }
    const remove = async (id: string): Promise<void> => {
      await proxy.stopOrKill(id)
      await prescribedDelay(bufferMs)
      rows.delete(id)
    }
    return {
      cleanUp: async () => {
        await Promise.all([...rows].map(remove))
        await prescribedDelay(processExitDelayMs)
        for (let attempt = 0; attempt < maxRetries && rows.size > 0; attempt++) await prescribedDelay(retryDelayMs)
        return rows.size === 0
      },
    }
  },
}
