import { execa } from 'execa'
import kill from 'tree-kill'
import type { Way } from '../way.ts'
import { spawnProgram, untilExit } from './spawned.ts'

/** Ways that stop a program with a package from npm. */

const treeKill: Way = {
  name: 'tree-kill',
  title: 'tree-kill',
  how: '`treeKill(pid, "SIGTERM", callback)`; its callback without an error, then wait for the exit of the process',
  start: async (launch) => {
    const spawned = await spawnProgram(launch)
    const killed = (): Promise<void> =>
      new Promise((resolve, reject) => kill(spawned.pid, 'SIGTERM', (error) => (error ? reject(error) : resolve())))
    return { stop: () => untilExit(spawned, killed) }
  },
}

const execaWay: Way = {
  name: 'execa',
  title: 'execa',
  how: '`execa(…, {forceKillAfterDelay: 5000, cleanup: true, reject: false, buffer: false})`, where the first two are the defaults; `subprocess.kill()`, then await the subprocess',
  start: async (launch) => {
    const [program = '', ...words] = launch.argv
    const child = execa(program, words, {
      cwd: launch.place.work,
      env: launch.env,
      extendEnv: false,
      // The types of execa allow 0, 1 and 2 only. It accepts every descriptor.
      stdin: launch.input === 'open' ? (launch.place.inputDescriptor as 0) : 'ignore',
      forceKillAfterDelay: 5_000,
      cleanup: true,
      reject: false,
      buffer: false,
    })
    return {
      stop: async () => {
        child.kill()
        const { signal, exitCode } = await child
        return { isDone: true, words: `the promise settled (${signal ?? `exit code ${exitCode}`})` }
      },
    }
  },
}

export const packageWays: readonly Way[] = [treeKill, execaWay]
