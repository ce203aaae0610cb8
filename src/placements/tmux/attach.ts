import { spawn } from 'node:child_process'
import { EbbError } from '../../core/model/errors.ts'
import { scopeOfResource } from '../../core/model/identity.ts'
import type { Tmux } from './tmux.ts'

/**
 * Connects this terminal to the session of an agent until the person detaches. The session is found by its mark, so a renamed session is
 * found, too.
 */
export async function attach(tmux: Tmux, agentId: string, env: Readonly<Record<string, string>>): Promise<number> {
  const listing = await tmux.sessions()
  const session = listing === 'none' ? undefined : listing.find(({ mark }) => scopeOfResource(mark.resourceId) === agentId)
  if (!session)
    throw new EbbError('agent_not_found', `The agent ${agentId} has no tmux session any more; "ebb show ${agentId}" shows how it ended.`)
  // `-E` keeps the environment of this terminal out of the session.
  const [program = 'tmux', ...args] = tmux.argv('attach-session', '-E', '-t', session.id)
  // tmux refuses to attach inside another session, which it detects by the variable TMUX.
  const { TMUX: _, ...rest } = env
  const child = spawn(program, args, { stdio: 'inherit', env: rest })
  return await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => resolve(code ?? 1))
  })
}
