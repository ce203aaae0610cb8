import type { Conversation, Json, OfferedTool } from './conversation.ts'
import type { Outlet } from './outlet.ts'

/** One of the HTTP APIs of model vendors. */
export interface Api {
  readonly name: ApiName
  /** Which call of this API a path is: an answer, a token count, or (undefined) none. */
  call(path: string): 'answer' | 'count' | undefined
  read(body: Json, url: URL): Conversation
  openAnswer(conversation: Conversation, outlet: Outlet): AnswerWriter
  /** The body of an error. */
  error(failure: Failure): Json
  count(tokens: number): Json
}

export type ApiName = 'anthropic-messages' | 'openai-responses' | 'openai-chat' | 'gemini'

/** Writes one answer in the format of its API: piece by piece into a stream, or at once at the end. */
export interface AnswerWriter {
  /** `isKept`: keep the text, because `end` repeats all of it. False for an endless answer, which has no end. */
  text(piece: string, isKept: boolean): void
  call(tool: OfferedTool, input: Json): void
  end(): void
  /** Reports an error in a stream that has begun. */
  fail(failure: Failure): void
}

export interface Failure {
  readonly status: number
  readonly message: string
}

/** An estimate of four characters per token. Clients only display it. */
export function tokensIn(text: string): number {
  return Math.ceil(text.length / 4)
}
