import type { Conversation, Json, OfferedTool } from './conversation.ts'
import type { Outlet } from './outlet.ts'

/** One of the APIs that models are spoken to with. */
export interface Api {
  readonly name: ApiName
  /** Is this one of its calls? `count` is the one that asks how many tokens something has. */
  call(path: string): 'answer' | 'count' | undefined
  read(body: Json, url: URL): Conversation
  speak(conversation: Conversation, outlet: Outlet): Speaker
  /** The body of an error. */
  error(failure: Failure): Json
  count(tokens: number): Json
}

export type ApiName = 'anthropic-messages' | 'openai-responses' | 'openai-chat' | 'gemini'

/** Says one answer in the words of its API: in a stream as it comes, else all at once at the end. */
export interface Speaker {
  /** `isKept`: will there be an end, at which all of it is said again? An endless answer has none. */
  text(piece: string, isKept: boolean): void
  call(tool: OfferedTool, input: Json): void
  end(): void
  /** In the middle of a stream. */
  fail(failure: Failure): void
}

export interface Failure {
  readonly status: number
  readonly message: string
}

/** About four letters each: what clients show, and what nobody is billed for. */
export function tokensIn(text: string): number {
  return Math.ceil(text.length / 4)
}
