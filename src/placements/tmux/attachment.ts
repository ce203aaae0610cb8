import { EbbError } from '../../core/model/errors.ts'
import { scopeOfResource } from '../../core/model/identity.ts'
import type { Attachment, AttachmentParts } from '../definition.ts'
import { socketIn } from './names.ts'
import { Tmux } from './tmux.ts'

/** The command that attaches to the session of an agent. The session is found by its mark, so a renamed session is found, too. */
export async function attachmentOf(agentId: string, { home, effects, environment }: AttachmentParts): Promise<Attachment> {
  const tmux = new Tmux({ effects, socket: socketIn(home), environment })
  const listing = await tmux.sessions()
  const session = listing === 'none' ? undefined : listing.find(({ mark }) => scopeOfResource(mark.resourceId) === agentId)
  if (!session)
    throw new EbbError('agent_not_found', `The agent ${agentId} has no tmux session any more; "ebb show ${agentId}" shows how it ended.`)
  // tmux refuses to attach inside another session, which it detects by the variable TMUX.
  const { TMUX: _, ...rest } = environment
  // `-E` keeps the environment of this terminal out of the session.
  return { argv: tmux.argv('attach-session', '-E', '-t', session.id), environment: rest }
}
