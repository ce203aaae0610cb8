import { EbbError } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import type { Arguments } from '../arguments.ts'
import { type AgentResult, forEachAgent } from '../client/for-each-agent.ts'
import { connectToServer } from '../client/server-call.ts'
import { type CommandDefinition, serverOptions, someAgents, type Wiring } from '../command.ts'
import { configOf } from '../open.ts'

export const definition: CommandDefinition = {
  name: 'stop',
  summary: 'stop agents and prove their end; their rows and messages are kept',
  usage: 'ebb stop ID… [--grace 5s] [--force] [--json]',
  examples: ['ebb stop 1a2b3c4d --grace 30s', 'ebb stop 1a2b3c4d 5e6f7a8b --force'],
  options: [...serverOptions, 'grace'],
  switches: ['force', 'json', 'help'],
  takesWords: { ...someAgents, offers: () => 'running agents' },
  run,
}

async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const client = await connectToServer(args, wiring, config)
  const body = args.switches.has('force') ? { force: true } : { grace: config.grace }
  const stop = async (id: string): Promise<AgentResult> => {
    const report = await client.post<Report>(`/agents/${id}/stop`, body)
    if (!report.success) throw new EbbError('not_released', `The agent ${id} could not be released.`, { details: report })
    return { message: `${id} ${outcomeOf(report.trigger)}`, json: { agentId: id, report } }
  }
  return await forEachAgent(args, wiring, client, { verb: 'stopping', act: stop })
}

/** The trigger `completed` is not shown: it does not mean success, unlike the status of the same name. */
function outcomeOf(trigger: Report['trigger']): string {
  if (trigger === 'terminated') return 'stopped'
  return trigger === 'completed' ? 'had already ended' : `had already ended (${trigger})`
}
