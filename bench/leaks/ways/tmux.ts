import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { throughShell, type Way } from '../way.ts'

const run = promisify(execFile)

/** A way with its own tmux server. A second session keeps that server running, as on a person's machine. */
export const tmuxWay: Way = {
  name: 'tmux-kill-session',
  title: 'tmux kill-session',
  how: '`tmux new-session -d CMD`, then `tmux kill-session`; exit code 0, and `has-session` no longer finds it',
  start: async (launch) => {
    const socket = join(launch.place.own, 'tmux.sock')
    // tmux takes the PATH of a session from the client that creates it, and ignores -e for it.
    const env = { PATH: launch.env.PATH, TERM: 'xterm' }
    const tmux = (...words: readonly string[]): Promise<unknown> => run('tmux', ['-S', socket, '-f', '/dev/null', ...words], { env })
    await tmux('new-session', '-d', '-s', 'stays', 'sleep', '1000')
    const variables = Object.entries(launch.env).flatMap(([name, value]) => ['-e', `${name}=${value}`])
    await tmux('new-session', '-d', '-s', 'agent', '-c', launch.place.work, ...variables, ...throughShell(launch))
    return {
      stop: async () => {
        await tmux('kill-session', '-t', '=agent')
        const isThere = await tmux('has-session', '-t', '=agent').then(
          () => true,
          () => false,
        )
        return { isDone: !isThere, words: isThere ? 'the session still exists' : 'exit code 0, no such session' }
      },
      end: async () => void (await tmux('kill-server')),
    }
  },
}
