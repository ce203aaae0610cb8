export const messageTypes = ['user', 'assistant', 'system', 'error', 'tool', 'response'] as const
export type MessageType = (typeof messageTypes)[number]

/** What one line of output says, before it has a place in the conversation. */
export interface MessageBody {
  readonly type: MessageType
  readonly role?: string
  /** Text for people. */
  readonly content: string
  /** The line as it was parsed, where it was JSON. */
  readonly raw?: unknown
  readonly metadata?: Readonly<Record<string, unknown>>
}

/** One message of an agent's conversation, in the public shape that `GET /api/agents/:id/messages` answers. */
export interface Message extends MessageBody {
  readonly id: string
  readonly agentId: string
  /** 1, 2, 3 … without gaps. */
  readonly sequenceNumber: number
  readonly createdAt: string
}
