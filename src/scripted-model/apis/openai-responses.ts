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

/** The Responses API of OpenAI: a stream of items, each added, filled and done. */
export const openaiResponses: Api = {
  name: 'openai-responses',

  call: (path) => (path.endsWith('/responses') ? 'answer' : undefined),

  read: (body) => {
    const input = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : list(body.input).map(object)
    const schema = object(object(object(body.text).format).schema)
    const developer = input.filter(({ role }) => role === 'developer' || role === 'system').map(({ content }) => textOf(content))
    return {
      model: string(body.model),
      system: [string(body.instructions), ...developer].join('\n'),
      tools: list(body.tools).flatMap((tool) => offered(object(tool))),
      isStreaming: body.stream === true,
      ...(Object.keys(schema).length > 0 && { schema }),
      ...sinceLastPrompt(input.map(entry)),
    }
  },

  openAnswer: (conversation, outlet) => new Items(conversation, outlet),
  error: openaiError,
  count: (tokens) => ({ input_tokens: tokens }),
}

/** The tools of one offer. Several tools may be grouped in a namespace, which a call of such a tool must then name, too. */
function offered(tool: Json): readonly OfferedTool[] {
  const name = string(tool.name) || string(tool.type)
  if (tool.type !== 'namespace') return [{ name }]
  return list(tool.tools).map((one) => {
    const inner = string(object(one).name)
    return { name: `${name}__${inner}`, wire: { name: inner, namespace: name } }
  })
}

function entry({ type, role, content, output }: Json): Entry {
  if (string(type).endsWith('_output'))
    return { by: 'tool', text: typeof output === 'string' ? output : textOf(output) || JSON.stringify(output) }
  if (role === 'user') return { by: 'person', text: textOf(content) }
  if (role === 'developer' || role === 'system') return { by: 'other', text: '' }
  return { by: 'model', text: textOf(content) }
}

class Items implements AnswerWriter {
  readonly #outlet: Outlet
  readonly #isStreaming: boolean
  readonly #inputTokens: number
  readonly #response: Json
  readonly #output: Json[] = []
  #textItem: { readonly id: string; text: string } | undefined
  #sent = 0

  constructor({ model, isStreaming, prompt }: Conversation, outlet: Outlet) {
    this.#outlet = outlet
    this.#isStreaming = isStreaming
    this.#inputTokens = tokensIn(prompt)
    const now = Math.floor(Date.now() / 1000)
    this.#response = {
      id: `resp_${randomUUID().replaceAll('-', '')}`,
      object: 'response',
      created_at: now,
      status: 'in_progress',
      model,
      output: [],
    }
  }

  text(piece: string, isKept: boolean): void {
    if (!this.#textItem) {
      this.#textItem = { id: `msg_${randomUUID().replaceAll('-', '')}`, text: '' }
      this.#send('response.output_item.added', { output_index: this.#output.length, item: this.#message('in_progress') })
      this.#send('response.content_part.added', { ...this.#place(), part: textPart('') })
    }
    if (isKept) this.#textItem.text += piece
    this.#send('response.output_text.delta', { ...this.#place(), delta: piece })
  }

  call(tool: OfferedTool, input: Json): void {
    this.#endText()
    const id = randomUUID().replaceAll('-', '')
    const item = {
      type: 'function_call',
      id: `fc_${id}`,
      call_id: `call_${id}`,
      status: 'completed',
      name: tool.name,
      ...tool.wire,
      arguments: JSON.stringify(input),
    }
    this.#send('response.output_item.added', { output_index: this.#output.length, item: { ...item, status: 'in_progress', arguments: '' } })
    const place = { item_id: item.id, output_index: this.#output.length }
    this.#send('response.function_call_arguments.delta', { ...place, delta: item.arguments })
    this.#send('response.function_call_arguments.done', { ...place, arguments: item.arguments })
    this.#done(item)
  }

  end(): void {
    this.#endText()
    const outputTokens = tokensIn(JSON.stringify(this.#output))
    const usage = {
      input_tokens: this.#inputTokens,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: outputTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: this.#inputTokens + outputTokens,
    }
    const response = { ...this.#response, status: 'completed', output: this.#output, usage }
    if (!this.#isStreaming) {
      this.#outlet.json(200, response)
      return
    }
    this.#send('response.completed', { response })
    this.#outlet.close()
  }

  fail({ status, message }: Failure): void {
    const error = { code: status === 429 ? 'rate_limit_exceeded' : 'server_error', message }
    this.#send('response.failed', { response: { ...this.#response, status: 'failed', error } })
    this.#outlet.close()
  }

  #endText(): void {
    if (!this.#textItem) return
    this.#send('response.output_text.done', { ...this.#place(), text: this.#textItem.text })
    this.#send('response.content_part.done', { ...this.#place(), part: textPart(this.#textItem.text) })
    const item = this.#message('completed')
    this.#textItem = undefined
    this.#done(item)
  }

  #message(status: 'in_progress' | 'completed'): Json {
    const content = status === 'completed' && this.#textItem ? [textPart(this.#textItem.text)] : []
    return { type: 'message', id: this.#textItem?.id, role: 'assistant', status, content }
  }

  #place(): Json {
    return { item_id: this.#textItem?.id, output_index: this.#output.length, content_index: 0 }
  }

  #done(item: Json): void {
    this.#send('response.output_item.done', { output_index: this.#output.length, item })
    this.#output.push(item)
  }

  #send(type: string, data: Json): void {
    if (!this.#isStreaming) return
    if (this.#sent === 0) {
      this.#number('response.created', { response: this.#response })
      this.#number('response.in_progress', { response: this.#response })
    }
    this.#number(type, data)
  }

  #number(type: string, data: Json): void {
    this.#outlet.event(type, { type, sequence_number: this.#sent++, ...data })
  }
}

const textPart = (text: string): Json => ({ type: 'output_text', text, annotations: [] })
