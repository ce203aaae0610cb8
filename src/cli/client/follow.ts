import { type Agent, isFinal } from '../../core/model/agent.ts'
import { isEbbError } from '../../core/model/errors.ts'
import type { Message } from '../../core/model/message.ts'

/** Reads an agent and its messages, from a server or from an engine in this process. */
export interface Conversation {
  agent(id: string): Promise<Agent>
  /** The messages after `since`. Waits up to `waitMs` for the first one, or for the agent's end. */
  messages(id: string, since: number, waitMs: number): Promise<readonly Message[]>
}

/**
 * The longest wait for messages. `stoppingWaitMs` applies while the agent is stopping. A wait ends early at a message or at the agent's
 * end. The failure of another client's close has no event, so the status is read after each wait.
 */
const waitMs = 5_000
const stoppingWaitMs = 250

/** The running close of the agent, which may fail while the agent's status is still `stopping`. */
export interface CloseProgress {
  willNotEnd(agent: Agent): boolean
  /** Settles when the result of `willNotEnd` has changed. */
  readonly change: Promise<void>
}

/** Shows the messages of an agent until it has ended, or cannot be ended. Returns undefined if it was deleted in the meantime. */
export async function follow(
  conversation: Conversation,
  id: string,
  show: (messages: readonly Message[]) => void,
  close?: CloseProgress,
): Promise<Agent | undefined> {
  let since = 0
  let change = close?.change.then((): readonly Message[] => {
    change = undefined
    return []
  })
  try {
    for (;;) {
      // The status is read before the messages, because the end is written after the last message.
      const agent = await conversation.agent(id)
      const hasEnded = isFinal(agent.status) || agent.status === 'stuck' || (close?.willNotEnd(agent) ?? false)
      const patienceMs = agent.status === 'stopping' ? stoppingWaitMs : waitMs
      const news = conversation.messages(id, since, hasEnded ? 0 : patienceMs)
      const messages = await (hasEnded || !change ? news : Promise.race([news, change]))
      show(messages)
      since = messages.at(-1)?.sequenceNumber ?? since
      if (hasEnded && messages.length === 0) return agent
    }
  } catch (error) {
    if (isEbbError(error, 'agent_not_found')) return undefined
    throw error
  }
}
