import { EbbError, isEbbError } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import type { Arguments } from '../arguments.ts'
import { connectToServer } from '../client/server-call.ts'
import { type CommandDefinition, serverOptions, type Wiring } from '../command.ts'
import { configOf } from '../open.ts'
import { plainOutput } from '../output.ts'
import { withStatusLine } from '../terminal/status-line.ts'
import { many } from '../terminal/text.ts'

export const definition: CommandDefinition = {
  name: 'reset',
  summary: 'end and delete everything of a server with --test-endpoints, or of one namespace, and prove it',
  usage: 'ebb reset [--namespace NAME] [--force] [--json]',
  examples: ['ebb reset', 'ebb reset --namespace worker-3 --force'],
  options: [...serverOptions, 'namespace'],
  switches: ['force', 'json', 'help'],
  run,
}

async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const client = await connectToServer(args, wiring, config)
  const body = {
    ...(config.namespace !== undefined && { namespace: config.namespace }),
    ...(args.switches.has('force') && { force: true }),
  }
  const where = config.namespace === undefined ? 'everything' : `the namespace ${config.namespace}`
  const reset = (): Promise<Report> => client.post<Report>('/test/reset-environment', body)
  const report = await withStatusLine(wiring.clock, args.switches.has('json'), `resetting ${where}`, reset).catch((error: unknown) => {
    if (!isEbbError(error, 'not_found')) throw error
    throw new EbbError('not_found', `The server at ${client.url} does not offer resets; start it with: ebb serve --test-endpoints`)
  })
  const output = plainOutput()
  if (args.switches.has('json')) output.out(`${JSON.stringify(report, null, 2)}\n`)
  else if (report.success)
    output.out(
      `Reset in ${Math.round(report.duration)} ms: ${many(report.cleanedAgentsCount, 'agent')} and ${many(report.cleanedMessagesCount, 'message')} deleted, proven gone.\n`,
    )
  if (report.success) return 0
  output.err(`ebb: not everything is proven gone after the reset:\n${report.errors.map((error) => `  ${error}\n`).join('')}`)
  return 3
}
