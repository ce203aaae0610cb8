/** One message of an agent's conversation, in the contract's shape. */
export interface Message {
  readonly id: string
  readonly agentId: string
  /** 1, 2, 3 … without gaps. */
  readonly sequenceNumber: number
  readonly type: 'user' | 'assistant' | 'system' | 'error' | 'tool' | 'response'
  readonly content: string
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly createdAt: string
}
