import { definePlacement } from '../definition.ts'

/** Runs the command in the pane of a tmux session of its own, which a person can attach to. */
export const tmux = definePlacement({
  name: 'tmux',
  isRemote: false,
  hasTerminal: true,
  options: {},
  open: async (_settings, parts) => (await import('./placement.ts')).openTmux(parts),
})
