import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Way } from '../way.ts'
import { spawnProgram, untilExit } from './spawned.ts'

const run = promisify(execFile)

/** Ways that stop a program with commands of coreutils, procps and util-linux. */

/** timeout(1) ends a program after a time. On an earlier SIGTERM it passes the signal on, and still kills after `-k`. */
const timeout: Way = {
  name: 'timeout-k',
  title: 'timeout -k',
  how: '`timeout -k 5 3600 CMD`, then SIGTERM to timeout, which passes it on and kills after 5 s, then wait for its exit',
  start: async (launch) => {
    const spawned = await spawnProgram(launch, ['timeout', '-k', '5', '3600', ...launch.argv])
    return { stop: () => untilExit(spawned, () => void spawned.child.kill('SIGTERM')) }
  },
}

/** pkill(1) exits with 0 when it signalled a process, and with 1 when no process matches. */
const session: Way = {
  name: 'setsid-pkill',
  title: 'setsid + pkill -s',
  how: '`setsid CMD`; `pkill -TERM -s SID`, up to 5 s until the session is empty, then `pkill -KILL -s SID`, then wait for the exit',
  start: async (launch) => {
    // `detached` creates a session as setsid(1) does, and the program is its leader.
    const spawned = await spawnProgram(launch, launch.argv, { detached: true })
    const pkill = async (signal: string): Promise<boolean> =>
      await run('pkill', [`-${signal}`, '-s', String(spawned.pid)]).then(
        () => true,
        () => false,
      )
    return {
      stop: () =>
        untilExit(spawned, async () => {
          await pkill('TERM')
          const until = performance.now() + 5_000
          while (performance.now() < until && (await pkill('0'))) await new Promise((resolve) => setTimeout(resolve, 50))
          await pkill('KILL')
        }),
    }
  },
}

/** unshare(1) blocks SIGTERM while it waits for its child. `--kill-child` takes effect when unshare itself is killed. */
const namespace: Way = {
  name: 'unshare-kill-child',
  title: 'unshare --kill-child',
  how: '`unshare --pid --fork --kill-child --mount-proc CMD`, then SIGKILL to unshare, then wait for its exit',
  missing: () => (process.getuid?.() === 0 ? undefined : 'a pid namespace needs root'),
  start: async (launch) => {
    const spawned = await spawnProgram(launch, ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', ...launch.argv])
    return { stop: () => untilExit(spawned, () => void spawned.child.kill('SIGKILL')) }
  },
}

export const commandWays: readonly Way[] = [timeout, session, namespace]
