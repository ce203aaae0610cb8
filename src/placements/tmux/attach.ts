import { EbbError } from '../../core/model/errors.ts'
import { scopeOfResource } from '../../core/model/identity.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Tmux } from './tmux.ts'

/**
 * Connects this terminal to the session of an agent until the person detaches. The session is found by its mark, so a renamed session is
 * found, too.
 */
export async function attach(tmux: Tmux, agentId: string, env: Readonly<Record<string, string>>, effects: Effects): Promise<number> {
  const listing = await tmux.sessions()
  const session = listing === 'none' ? undefined : listing.find(({ mark }) => scopeOfResource(mark.resourceId) === agentId)
  if (!session)
    throw new EbbError('agent_not_found', `The agent ${agentId} has no tmux session any more; "ebb show ${agentId}" shows how it ended.`)
  // `-E` keeps the environment of this terminal out of the session.
  const argv = tmux.argv('attach-session', '-E', '-t', session.id)
  // tmux refuses to attach inside another session, which it detects by the variable TMUX.
  const { TMUX: _, ...rest } = env
  const child = await effects.spawn({ program: 'tmux', argv, env: rest, stdio: ['inherit', 'inherit', 'inherit'] })
  return (await child.exit).code ?? 1
}
