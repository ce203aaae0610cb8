import { definePlacement } from '../definition.ts'
import { sessionName, socketIn } from './names.ts'

/** Runs the command in the pane of a tmux session of its own, which a person can attach to. */
export const tmux = definePlacement({
  name: 'tmux',
  labels: { title: 'tmux', waitsFor: 'the terminal of the agent', resources: { 'tmux-session': { title: 'tmux session' } } },
  isRemote: false,
  options: {},
  terminal: {
    detachKeys: 'Ctrl-B D',
    place: (home, agentName) => ({ session: sessionName(agentName), socket: socketIn(home) }),
    attachment: async (agentId, at) => (await import('./attachment.ts')).attachmentOf(agentId, at),
  },
  open: async (_settings, parts) => (await import('./placement.ts')).openTmux(parts),
})
