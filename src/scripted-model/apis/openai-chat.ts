import { randomUUID } from 'node:crypto'
import { type AnswerWriter, type Api, type Failure, tokensIn } from '../api.ts'
import {
  type Conversation,
  type Entry,
  type Json,
  list,
  type OfferedTool,
  object,
  sinceLastPrompt,
  string,
  textOf,
} from '../conversation.ts'
import type { Outlet } from '../outlet.ts'
import { openaiError } from './openai-error.ts'

/** The Chat Completions API of OpenAI, which many other vendors implement, too: a stream of chunks of one message. */
export const openaiChat: Api = {
  name: 'openai-chat',

  call: (path) => (path.endsWith('/chat/completions') ? 'answer' : undefined),

  read: (body) => {
    const messages = list(body.messages).map(object)
    const system = messages.filter(({ role }) => role === 'system' || role === 'developer')
    const schema = object(object(object(body.response_format).json_schema).schema)
    return {
      model: string(body.model),
      system: system.map(({ content }) => textOf(content)).join('\n'),
      tools: list(body.tools).map((tool) => ({ name: string(object(object(tool).function).name) })),
      isStreaming: body.stream === true,
      wantsUsage: object(body.stream_options).include_usage === true,
      ...(Object.keys(schema).length > 0 && { schema }),
      ...sinceLastPrompt(messages.map(entry)),
    }
  },

  openAnswer: (conversation, outlet) => new Chunks(conversation, outlet),
  error: openaiError,
  count: (tokens) => ({ input_tokens: tokens }),
}

const authors: Readonly<Record<string, Entry['by']>> = { user: 'person', assistant: 'model', tool: 'tool', function: 'tool' }

function entry({ role, content }: Json): Entry {
  return { by: authors[string(role)] ?? 'other', text: textOf(content) }
}

class Chunks implements AnswerWriter {
  readonly #outlet: Outlet
  readonly #isStreaming: boolean
  readonly #promptTokens: number
  readonly #base: Json
  readonly #wantsUsage: boolean
  #isFirst = true
  #text = ''
  readonly #calls: Json[] = []

  constructor({ model, isStreaming, wantsUsage = false, prompt }: Conversation, outlet: Outlet) {
    this.#outlet = outlet
    this.#wantsUsage = wantsUsage
    this.#isStreaming = isStreaming
    this.#promptTokens = tokensIn(prompt)
    this.#base = { id: `chatcmpl-${randomUUID()}`, created: Math.floor(Date.now() / 1000), model }
  }

  text(piece: string, isKept: boolean): void {
    if (isKept) this.#text += piece
    this.#sendDelta({ content: piece })
  }

  call({ name }: OfferedTool, input: Json): void {
    const call = { id: `call_${randomUUID().replaceAll('-', '')}`, type: 'function', function: { name, arguments: JSON.stringify(input) } }
    this.#sendDelta({ tool_calls: [{ index: this.#calls.length, ...call }] })
    this.#calls.push(call)
  }

  end(): void {
    const reason = this.#calls.length > 0 ? 'tool_calls' : 'stop'
    const completion = tokensIn(this.#text + JSON.stringify(this.#calls))
    const usage = { prompt_tokens: this.#promptTokens, completion_tokens: completion, total_tokens: this.#promptTokens + completion }
    if (!this.#isStreaming) {
      const message = { role: 'assistant', content: this.#text || null, ...(this.#calls.length > 0 && { tool_calls: this.#calls }) }
      this.#outlet.json(200, { ...this.#base, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: reason }], usage })
      return
    }
    this.#sendDelta({}, reason)
    if (this.#wantsUsage) this.#send([], usage)
    this.#outlet.event(undefined, '[DONE]')
    this.#outlet.close()
  }

  fail(failure: Failure): void {
    this.#outlet.event(undefined, openaiError(failure))
    this.#outlet.close()
  }

  /** The role is sent only with the first chunk: clients that join the chunks would append it again like text. */
  #sendDelta(delta: Json, reason: string | null = null): void {
    const role = this.#isFirst ? { role: 'assistant', content: null } : {}
    this.#isFirst = false
    this.#send([{ index: 0, delta: { ...role, ...delta }, finish_reason: reason }], null)
  }

  /** A client that asked for the usage gets the field in every chunk: null, except in the last chunk, which has no choices. */
  #send(choices: readonly Json[], usage: Json | null): void {
    if (!this.#isStreaming) return
    this.#outlet.event(undefined, { ...this.#base, object: 'chat.completion.chunk', choices, ...(this.#wantsUsage && { usage }) })
  }
}
