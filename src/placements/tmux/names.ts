import { join } from 'node:path'

/** The names by which a person's tmux finds the session of an agent. */

export function socketIn(home: string): string {
  return join(home, 'tmux.sock')
}

export function sessionName(agentName: string): string {
  return `agent_${agentName}`
}
