import type { Conversation, Json, OfferedTool } from './conversation.ts'
import type { Outlet } from './outlet.ts'

/** One of the HTTP APIs of model vendors. */
export interface Api {
  readonly name: ApiName
  /** Which call of this API a path is: an answer, a token count, or (undefined) none. */
  call(path: string): 'answer' | 'count' | undefined
  read(body: Json, url: URL): Conversation
  openAnswer(conversation: Conversation, outlet: Outlet): AnswerWriter
  /** The body of an error response, in the format of the API. */
  error(failure: Failure): Json
  count(tokens: number): Json
}

export type ApiName = 'anthropic-messages' | 'openai-responses' | 'openai-chat' | 'gemini'

/** Writes one answer in the format of its API: piece by piece into a stream, or at once at the end. */
export interface AnswerWriter {
  /** Adds a piece of text. `isKept` is false for an endless answer. Otherwise the text is kept, because `end` sends all of it again. */
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

/** Estimates the number of tokens as one for four characters. Clients only display the number. */
export function tokensIn(text: string): number {
  return Math.ceil(text.length / 4)
}
