import type { Arguments } from '../arguments.ts'
import { AgentIds } from '../client/agent-id.ts'
import { follow } from '../client/follow.ts'
import { callServer } from '../client/server-call.ts'
import { type CommandDefinition, oneAgent, serverOptions, type Wiring } from '../command.ts'
import { configOf } from '../open.ts'
import { messagePrinter, plainOutput } from '../output.ts'
import { conversationOn } from '../terminal/conversation.ts'

export const definition: CommandDefinition = {
  name: 'logs',
  summary: 'show the messages of an agent; with -f, follow them until it has ended',
  usage: 'ebb logs ID [-f] [--json]',
  examples: ['ebb logs 1a2b3c4d', 'ebb logs -f 1a2b3c4d', 'ebb logs --json 1a2b3c4d'],
  options: serverOptions,
  switches: ['follow', 'json', 'help'],
  letters: { f: 'follow' },
  takesWords: oneAgent,
  run,
}

async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const word = [...args.words, ...args.rest][0] ?? ''
  const { client, id, session } = await callServer(args, wiring, configOf(args, wiring), async (client) => {
    const { id, session } = await client.agent(await new AgentIds(client).find(word))
    return { client, id, session }
  })
  const output = plainOutput()
  const isJson = args.switches.has('json')
  // A log is shown completely, including long results of tools.
  const view = conversationOn(output, isJson, { resultLines: Number.POSITIVE_INFINITY })
  const show = view ? view.show.bind(view) : messagePrinter(output, isJson)
  if (!args.switches.has('follow')) {
    // Reading stops at the message count of the start. Otherwise an agent that keeps writing would never let the command end.
    for (let since = 0; since < session.messageCount; ) {
      const messages = await client.messages(id, since, 0)
      show(messages)
      const last = messages.at(-1)
      if (!last) break
      since = last.sequenceNumber
    }
    view?.end()
    return 0
  }
  const agent = await follow(client, id, show)
  view?.end()
  if (!agent) output.err(`ebb: the agent ${id} was deleted meanwhile.\n`)
  return 0
}
