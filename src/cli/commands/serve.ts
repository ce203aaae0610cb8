import { placementKeys } from '../../config/options.ts'
import { type CommandDefinition, commonOptions, supervising } from '../command.ts'

export const definition: CommandDefinition = {
  name: 'serve',
  summary: 'run the control plane, which runs agents over HTTP and sockets, until Ctrl-C',
  usage: 'ebb serve [options]',
  examples: ['ebb serve', 'ebb serve --port 0 --test-endpoints', 'ebb serve --host 0.0.0.0 --token "$TOKEN" --allow-host build.example'],
  options: [
    ...commonOptions,
    'host',
    'port',
    'store',
    'testEndpoints',
    'token',
    'allowOrigin',
    'allowHost',
    'keepOnExit',
    'whileStdin',
    'runner',
    ...supervising,
    ...placementKeys,
    'archiveMaxAgeDays',
    'archiveMaxBytes',
    'archiveTaskMaxBytes',
    'archiveCompressAfterDays',
    'archiveByAgentType',
  ],
  switches: ['json', 'help'],
  leavesInTime: true,
  run: async (args, wiring) => await (await import('../server/serve.ts')).serve(args, wiring),
}
