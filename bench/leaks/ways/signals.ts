import type { Way } from '../way.ts'
import { spawnProgram, untilExit } from './spawned.ts'

/** A way that sends a signal with kill(2) to the started process, or to the process group that it leads. */
function signalWay(signal: 'SIGTERM' | 'SIGKILL', target: 'pid' | 'group'): Way {
  const option = signal === 'SIGTERM' ? 'TERM' : 'KILL'
  return {
    name: `${signal.toLowerCase()}-${target}`,
    title: `${signal} to the ${target}`,
    how: `\`kill -${option} ${target === 'pid' ? 'PID' : '-PID'}\`, then wait for the exit of the process`,
    start: async (launch) => {
      const spawned = await spawnProgram(launch, launch.argv, { detached: target === 'group' })
      const to = target === 'pid' ? spawned.pid : -spawned.pid
      return { stop: () => untilExit(spawned, () => void process.kill(to, signal)) }
    },
  }
}

export const signalWays: readonly Way[] = [
  signalWay('SIGTERM', 'pid'),
  signalWay('SIGTERM', 'group'),
  signalWay('SIGKILL', 'pid'),
  signalWay('SIGKILL', 'group'),
]
