import { type Agent, isFinal } from '../core/model/agent.ts'
import { isEbbError } from '../core/model/errors.ts'
import type { Message } from '../core/model/message.ts'

/** An agent that is watched, wherever it runs. */
export interface Conversation {
  agent(id: string): Promise<Agent>
  /** What was said after `since`; waits so long for the first of it, or for the agent's end. */
  messages(id: string, since: number, waitMs: number): Promise<readonly Message[]>
}

/** A wait ends at the event; only that an end cannot be reached by somebody else's close is found out by asking again. */
const waitMs = 5_000
const stoppingWaitMs = 250

/** Who closes the agent, and may know before everybody else that it will not end. */
export interface Prospects {
  isHopeless(agent: Agent): boolean
  /** Settles when there is a reason to ask. */
  readonly change: Promise<void>
}

/** Shows what an agent says until it has ended, or will not, and all was shown. Undefined when somebody deleted it meanwhile. */
export async function follow(
  conversation: Conversation,
  id: string,
  show: (messages: readonly Message[]) => void,
  prospects?: Prospects,
): Promise<Agent | undefined> {
  let since = 0
  let change = prospects?.change.then((): readonly Message[] => {
    change = undefined
    return []
  })
  try {
    for (;;) {
      // Asked before the messages: an end is written after the last of them.
      const agent = await conversation.agent(id)
      const isOver = isFinal(agent.status) || agent.status === 'stuck' || (prospects?.isHopeless(agent) ?? false)
      const patienceMs = agent.status === 'stopping' ? stoppingWaitMs : waitMs
      const news = conversation.messages(id, since, isOver ? 0 : patienceMs)
      const messages = await (isOver || !change ? news : Promise.race([news, change]))
      show(messages)
      since = messages.at(-1)?.sequenceNumber ?? since
      if (isOver && messages.length === 0) return agent
    }
  } catch (error) {
    if (isEbbError(error, 'agent_not_found')) return undefined
    throw error
  }
}
