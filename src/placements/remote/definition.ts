import { option, parseBase, parseToken } from '../../config/option.ts'
import { definePlacement } from '../definition.ts'

/** Runs the agent at a runner host, with its output in logs of this host. */
export const remote = definePlacement({
  name: 'remote',
  labels: {
    title: 'Runner host',
    waitsFor: 'the runner host to start the agent',
    resources: { 'remote-agent': { title: 'Remote agent', endsProcesses: true, isOnOtherHost: true } },
  },
  isRemote: true,
  hasHost: true,
  options: {
    remoteUrl: option<string | undefined>('URL', 'the runner host of the placement remote', undefined, parseBase),
    remoteToken: option<string | undefined>('TOKEN', 'the token that the runner host requires', undefined, parseToken),
  },
  requires: { option: 'remoteUrl', what: 'the address of a runner host' },
  recoveryEnvironment: ({ remoteUrl, remoteToken }) => ({ EBB_REMOTE_URL: remoteUrl, EBB_REMOTE_TOKEN: remoteToken }),
  open: async (settings, parts) => (await import('./placement.ts')).openRemote(settings, parts),
})
