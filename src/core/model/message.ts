export const messageTypes = ['user', 'assistant', 'system', 'error', 'tool', 'response'] as const
export type MessageType = (typeof messageTypes)[number]

/** The content of one line of output, before it has an id and a number. */
export interface MessageBody {
  readonly type: MessageType
  readonly role?: string
  /** Text for display. */
  readonly content: string
  /** The parsed line, when it was JSON. */
  readonly raw?: unknown
  readonly metadata?: Readonly<Record<string, unknown>>
}

/** One message of an agent's conversation, in the public shape of `GET /api/agents/:id/messages`. */
export interface Message extends MessageBody {
  readonly id: string
  readonly agentId: string
  /** The position of the message in the conversation: 1, 2, 3 and so on, without gaps. */
  readonly sequenceNumber: number
  readonly createdAt: string
}
