import { AgentIds } from './agent-id.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'
import { connect } from './client.ts'
import { follow } from './follow.ts'
import { configOf } from './open.ts'
import { plainOutput } from './output.ts'
import { messagePrinter } from './render.ts'

/** `ebb logs ID`: what was said so far; with `-f`, until the agent has ended. */
export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const client = await connect(configOf(args, wiring))
  const id = await new AgentIds(client).find([...args.words, ...args.rest][0] ?? '')
  const output = plainOutput()
  const show = messagePrinter(output, args.switches.has('json'))
  const { session } = await client.agent(id)
  if (!args.switches.has('follow')) {
    // Up to what there was when it was asked for: an agent that writes and writes does not keep us here.
    for (let since = 0; since < session.messageCount; ) {
      const messages = await client.messages(id, since, 0)
      show(messages)
      const last = messages.at(-1)
      if (!last) break
      since = last.sequenceNumber
    }
    return 0
  }
  if (!(await follow(client, id, show))) output.err(`ebb: the agent ${id} was deleted meanwhile.\n`)
  return 0
}
