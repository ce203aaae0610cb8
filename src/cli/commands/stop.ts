import { EbbError } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import type { Arguments } from '../arguments.ts'
import { reach } from '../asking.ts'
import { type CommandDefinition, serverOptions, someAgents, type Wiring } from '../command.ts'
import { type Done, withEach } from '../each-agent.ts'
import { configOf } from '../open.ts'

export const definition: CommandDefinition = {
  name: 'stop',
  summary: 'end agents, proven; their rows and messages stay',
  usage: 'ebb stop ID… [--grace 5s] [--force] [--json]',
  examples: ['ebb stop 1a2b3c4d --grace 30s', 'ebb stop 1a2b3c4d 5e6f7a8b --force'],
  options: [...serverOptions, 'grace'],
  switches: ['force', 'json', 'help'],
  takesWords: someAgents,
  run,
}

/** `ebb stop ID…`: ended, proven; rows and messages stay. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const client = await reach(args, wiring, config)
  const body = args.switches.has('force') ? { force: true } : { grace: config.grace }
  const stop = async (id: string): Promise<Done> => {
    const report = await client.post<Report>(`/agents/${id}/stop`, body)
    if (!report.success) throw new EbbError('not_released', `The agent ${id} could not be released.`, { details: report })
    return { said: `${id} ${how(report.trigger)}`, facts: { agentId: id, report } }
  }
  return await withEach(args, wiring, client, { doing: 'stopping', act: stop })
}

/** Of an end of its own the trigger says nothing about success, and its word is that of a status which does. */
function how(trigger: Report['trigger']): string {
  if (trigger === 'terminated') return 'stopped'
  return trigger === 'completed' ? 'had ended by itself before' : `had ended before (${trigger})`
}
