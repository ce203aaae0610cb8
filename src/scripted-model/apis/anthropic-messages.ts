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

/** The Messages API of Anthropic: a stream of content blocks, each with a start, deltas and a stop. */
export const anthropicMessages: Api = {
  name: 'anthropic-messages',

  call: (path) => {
    if (path.endsWith('/messages/count_tokens')) return 'count'
    return path.endsWith('/messages') ? 'answer' : undefined
  },

  read: (body) => {
    const schema = object(object(object(body.output_config).format).schema)
    return {
      model: string(body.model),
      system: textOf(body.system),
      tools: list(body.tools).map((tool) => ({ name: string(object(tool).name) })),
      isStreaming: body.stream === true,
      ...(Object.keys(schema).length > 0 && { schema }),
      ...sinceLastPrompt(list(body.messages).flatMap((message) => entries(object(message)))),
    }
  },

  openAnswer: (conversation, outlet) => new Blocks(conversation, outlet),

  error: ({ status, message }) => ({ type: 'error', error: { type: errorTypes[status] ?? 'api_error', message } }),

  count: (tokens) => ({ input_tokens: tokens }),
}

const errorTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  529: 'overloaded_error',
}

function entries({ role, content }: Json): readonly Entry[] {
  if (role === 'assistant') return [{ by: 'model', text: textOf(content) }]
  if (role !== 'user') return [{ by: 'other', text: '' }]
  const results = list(content).map(object)
  const answered = results
    .filter(({ type }) => type === 'tool_result')
    .map(({ content: said }): Entry => ({ by: 'tool', text: textOf(said) }))
  const said = typeof content === 'string' ? content : textOf(results.filter(({ type }) => type === 'text'))
  // Texts beside tool results in one message are the agent's own reminders, so they do not count as a prompt.
  return answered.length > 0 ? answered : [{ by: 'person', text: said }]
}

class Blocks implements AnswerWriter {
  readonly #outlet: Outlet
  readonly #isStreaming: boolean
  readonly #message: Json
  readonly #content: { type: string; text?: string; id?: string; name?: string; input?: Json }[] = []
  #hasStarted = false

  constructor({ model, isStreaming, prompt }: Conversation, outlet: Outlet) {
    this.#outlet = outlet
    this.#isStreaming = isStreaming
    this.#message = {
      id: `msg_${randomUUID().replaceAll('-', '')}`,
      type: 'message',
      role: 'assistant',
      model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: tokensIn(prompt), output_tokens: 1 },
    }
  }

  text(piece: string, isKept: boolean): void {
    if (this.#content.at(-1)?.text === undefined) {
      this.#content.push({ type: 'text', text: '' })
      this.#begin({ type: 'text', text: '' })
    }
    const open = this.#content.at(-1)
    if (open && isKept) open.text += piece
    this.#delta({ type: 'text_delta', text: piece })
  }

  call({ name }: OfferedTool, input: Json): void {
    const id = `toolu_${randomUUID().replaceAll('-', '')}`
    this.#content.push({ type: 'tool_use', id, name, input })
    this.#begin({ type: 'tool_use', id, name, input: {} })
    this.#delta({ type: 'input_json_delta', partial_json: JSON.stringify(input) })
  }

  end(): void {
    const reason = this.#content.some(({ type }) => type === 'tool_use') ? 'tool_use' : 'end_turn'
    const usage = { ...object(this.#message.usage), output_tokens: tokensIn(JSON.stringify(this.#content)) }
    if (!this.#isStreaming) {
      this.#outlet.json(200, { ...this.#message, content: this.#content, stop_reason: reason, usage })
      return
    }
    this.#start()
    this.#stopBlock()
    this.#send('message_delta', { delta: { stop_reason: reason, stop_sequence: null }, usage })
    this.#send('message_stop', {})
    this.#outlet.close()
  }

  fail(failure: Failure): void {
    this.#outlet.event('error', anthropicMessages.error(failure))
    this.#outlet.close()
  }

  #begin(block: Json): void {
    if (!this.#isStreaming) return
    this.#start()
    if (this.#content.length > 1) this.#stopBlock(this.#content.length - 2)
    this.#send('content_block_start', { index: this.#content.length - 1, content_block: block })
  }

  #start(): void {
    if (!this.#hasStarted) this.#send('message_start', { message: this.#message })
    this.#hasStarted = true
  }

  #delta(delta: Json): void {
    if (this.#isStreaming) this.#send('content_block_delta', { index: this.#content.length - 1, delta })
  }

  #stopBlock(index = this.#content.length - 1): void {
    if (index >= 0) this.#send('content_block_stop', { index })
  }

  #send(type: string, data: Json): void {
    this.#outlet.event(type, { type, ...data })
  }
}
