import { spawn } from 'node:child_process'
import { EbbError } from '../../core/model/errors.ts'
import { scopeOfResource } from '../../core/model/identity.ts'
import type { Tmux } from './tmux.ts'

/** Gives this terminal to the session of an agent until the person leaves it, whatever the session is called by now. */
export async function attach(tmux: Tmux, agentId: string, env: Readonly<Record<string, string>>): Promise<number> {
  const listing = await tmux.sessions()
  const session = listing === 'none' ? undefined : listing.find(({ mark }) => scopeOfResource(mark.resourceId) === agentId)
  if (!session)
    throw new EbbError('agent_not_found', `The agent ${agentId} has no tmux session any more; "ebb show ${agentId}" says how it ended.`)
  // Nothing of this person's environment goes into it (-E).
  const [program = 'tmux', ...args] = tmux.argv('attach-session', '-E', '-t', session.id)
  // tmux refuses to nest unless it is told that it may.
  const { TMUX: _, ...rest } = env
  const child = spawn(program, args, { stdio: 'inherit', env: rest })
  return await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => resolve(code ?? 1))
  })
}
