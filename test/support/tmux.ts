import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'

/** Reads Ebb's tmux server with the tmux command, without code of `src/`. */

export interface SeenSession {
  readonly name: string
  readonly panePid: number
}

export function tmux(home: string, ...words: readonly string[]): string {
  return execFileSync('tmux', ['-S', join(home, 'tmux.sock'), '-f', '/dev/null', ...words], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** The sessions of a home. Empty when no tmux server runs. */
export function sessionsOf(home: string): readonly SeenSession[] {
  const { stdout } = spawnSync('tmux', ['-S', join(home, 'tmux.sock'), 'list-sessions', '-F', '#{session_name} #{pane_pid}'], {
    encoding: 'utf8',
  })
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const [name = '', pid = ''] = line.split(' ')
      return { name, panePid: Number(pid) }
    })
}

export function tmuxServerPid(home: string): number {
  return Number(tmux(home, 'display-message', '-p', '#{pid}'))
}
