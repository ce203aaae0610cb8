import { definePlacement } from '../definition.ts'

/** Runs the command as processes of this host, with its output in logs. */
export const processes = definePlacement({
  name: 'process',
  labels: { title: 'Process', resources: {} },
  isRemote: false,
  options: {},
  open: async (_settings, { context }) => {
    const { planProcess } = await import('./placement.ts')
    return { name: 'process', kinds: [], plan: (scopeId, launch) => planProcess(context, scopeId, launch) }
  },
})
