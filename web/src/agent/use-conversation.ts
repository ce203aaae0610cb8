import { useEffect, useMemo } from 'react'
import { fetchAgent } from '../api/calls.ts'
import { follow, onConnect } from '../api/live.ts'
import { followEnd } from './follow-end.ts'
import { Conversation } from './store.ts'

/** Opens the conversation of an agent, shared by all parts of the agent's page. `messageCount` comes from the agent's row; live messages raise it further. */
export function useConversation(agentId: string, messageCount: number): Conversation {
  // biome-ignore lint/correctness/useExhaustiveDependencies: only the initial count matters; `grow` raises it later
  const conversation = useMemo(() => new Conversation(agentId, messageCount), [agentId])
  useEffect(() => conversation.grow(messageCount), [conversation, messageCount])
  useEffect(() => {
    const stop = followEnd(conversation, {
      follow: (subscription) => follow({ agentId, ...subscription }),
      count: async () => (await fetchAgent(agentId, undefined)).session.messageCount,
    })
    const stopRetrying = onConnect(() => conversation.retry())
    return () => {
      stop()
      stopRetrying()
    }
  }, [agentId, conversation])
  useEffect(() => () => conversation.close(), [conversation])
  return conversation
}
