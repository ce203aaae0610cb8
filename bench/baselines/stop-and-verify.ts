import { within } from '../leaks/way.ts'
import { AgentProxy } from './agent-proxy.ts'
import { type Algorithm, prescribedDelay } from './algorithms.ts'

/**
 * Each agent in turn is stopped with a limit of 10 s, then killed with SIGKILL. Rows and subscriptions are deleted and counted. Then the state is checked
 * every 200 ms for up to 5 s. If it is not clean, everything is killed. There are two attempts, 500 ms apart.
 */
export const stopAndVerify: Algorithm = {
  name: 'stop-and-verify',
  title: 'stop with a 10 s race, verify',
  how: 'one after the other SIGTERM raced with 10 s, then SIGKILL; rows deleted; counts of rows, subscriptions and known processes verified',
  start: async (crew) => {
    const proxy = new AgentProxy()
    const rows = new Set<string>()
    const subscriptions = new Set<string>()
    for (const [index, launch] of crew.launches.entries()) {
      const id = String(index)
      await proxy.start(id, launch)
      rows.add(id)
      subscriptions.add(id)
    }
    const cleanAll = async (isForced: boolean): Promise<boolean> => {
      for (const id of rows) {
        const isOver = isForced ? undefined : await within(stopped(proxy, id), 10_000)
        if (!isOver) proxy.kill(id)
      }
      subscriptions.clear()
      rows.clear()
      return rows.size + subscriptions.size === 0
    }
    const isClean = (): boolean => rows.size + subscriptions.size + proxy.running() === 0
    const verified = async (): Promise<boolean> => {
      for (const until = performance.now() + 5_000; performance.now() < until; await prescribedDelay(200)) if (isClean()) return true
      return isClean()
    }
    return {
      cleanUp: async () => {
        if ((await cleanAll(false)) && (await verified())) return true
        await prescribedDelay(500)
        for (const index of crew.launches.keys()) proxy.kill(String(index))
        return (await cleanAll(true)) && (await verified())
      },
    }
  },
}

const stopped = (proxy: AgentProxy, id: string): Promise<true> => proxy.stop(id).then(() => true)
