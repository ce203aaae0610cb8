import { useEffect, useMemo } from 'react'
import { fetchAgent } from '../api/calls.ts'
import { follow, onConnect } from '../api/live.ts'
import { followEnd } from './follow-end.ts'
import { Conversation } from './store.ts'

/** One conversation for all that show something of it. `messageCount` is as the agent's row says; live messages are counted here. */
export function useConversation(agentId: string, messageCount: number): Conversation {
  // biome-ignore lint/correctness/useExhaustiveDependencies: the count of the beginning; it grows by itself from there
  const conversation = useMemo(() => new Conversation(agentId, messageCount), [agentId])
  useEffect(() => conversation.grow(messageCount), [conversation, messageCount])
  useEffect(() => {
    const stop = followEnd(conversation, {
      follow: (one) => follow({ agentId, ...one }),
      count: async () => (await fetchAgent(agentId, undefined)).session.messageCount,
    })
    const end = onConnect(() => conversation.retry())
    return () => {
      stop()
      end()
    }
  }, [agentId, conversation])
  useEffect(() => () => conversation.close(), [conversation])
  return conversation
}
