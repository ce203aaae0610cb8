import { expect } from 'vitest'

/** The model APIs as their own documentation describes them: requests as an agent's library sends them, and a reader for the answers. */

export interface Heard {
  readonly text: string
  readonly calls: readonly { readonly name: string; readonly input: unknown }[]
}
// biome-ignore lint/suspicious/noExplicitAny: answers of foreign APIs, which the tests read without types
export type Json = Record<string, any>

export interface Tongue {
  readonly path: (isStreaming: boolean) => string
  ask(prompt: string, isStreaming: boolean): Json
  /** The next request of a conversation, after the agent ran a shell command. */
  answered(prompt: string, result: string): Json
  /** The content of a stream of events. */
  hear(events: readonly Json[]): Heard
  /** The content of one answer without streaming. */
  read(body: unknown): Heard
  readonly shell: { readonly name: string; readonly input: unknown }
}

export const tongues: Readonly<Record<string, Tongue>> = {
  'anthropic-messages': {
    path: () => '/v1/messages?beta=true',
    ask: (prompt, stream) => ({
      model: 'claude-x',
      max_tokens: 100,
      stream,
      tools: [{ name: 'Bash', input_schema: {} }],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: '<system-reminder>\nnever mind hello\n</system-reminder>' },
            { type: 'text', text: prompt },
          ],
        },
      ],
    }),
    answered: (prompt, result) => {
      const first = tongues['anthropic-messages']?.ask(prompt, true) ?? {}
      return {
        ...first,
        messages: [
          ...first.messages,
          { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'Bash', input: { command: 'x' } }] },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: 't', content: result },
              { type: 'text', text: 'By the way: slowly.' },
            ],
          },
        ],
      }
    },
    hear: (events) => {
      expect(events[0]?.type).toBe('message_start')
      expect(events.at(-1)?.type).toBe('message_stop')
      const starts = events.filter(({ type }) => type === 'content_block_start')
      expect(events.filter(({ type }) => type === 'content_block_stop').map(({ index }) => index)).toEqual(starts.map(({ index }) => index))
      const blocks = starts.map(({ index, content_block }) => {
        const deltas = events.filter((event) => event.type === 'content_block_delta' && event.index === index).map(({ delta }) => delta)
        return {
          ...content_block,
          text: deltas.map(({ text = '' }) => text).join(''),
          json: deltas.map(({ partial_json = '' }) => partial_json).join(''),
        }
      })
      const calls = blocks.filter(({ type }) => type === 'tool_use').map(({ name, json }) => ({ name, input: JSON.parse(json) }))
      expect(events.at(-2)?.delta.stop_reason).toBe(calls.length > 0 ? 'tool_use' : 'end_turn')
      return { text: blocks.map(({ text }) => text).join(''), calls }
    },
    read: (body) => {
      const { content, type } = body as Json
      expect(type).toBe('message')
      return {
        text: content.map(({ text = '' }: Json) => text).join(''),
        calls: content.filter((block: Json) => block.type === 'tool_use').map(({ name, input }: Json) => ({ name, input })),
      }
    },
    shell: { name: 'Bash', input: { command: 'echo hi', description: expect.any(String) } },
  },

  'openai-responses': {
    path: () => '/v1/responses',
    ask: (prompt, stream) => ({
      model: 'gpt-x',
      stream,
      tools: [{ type: 'function', name: 'exec_command' }],
      input: [
        { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'You are hello.' }] },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: '<environment_context>hello</environment_context>' }] },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: prompt }] },
      ],
    }),
    answered: (prompt, result) => {
      const first = tongues['openai-responses']?.ask(prompt, true) ?? {}
      const call = { type: 'function_call', call_id: 'c', name: 'exec_command', arguments: '{}' }
      return {
        ...first,
        input: [...first.input, { type: 'reasoning', summary: [] }, call, { type: 'function_call_output', call_id: 'c', output: result }],
      }
    },
    hear: (events) => {
      expect(events[0]?.type).toBe('response.created')
      const { type, response } = events.at(-1) ?? {}
      expect(type).toBe('response.completed')
      const text = events.filter((event) => event.type === 'response.output_text.delta').map(({ delta }) => delta)
      const items = events.filter((event) => event.type === 'response.output_item.done').map(({ item }) => item)
      expect(response.output).toEqual(items)
      expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, place) => place))
      expect(partsIn(events)).toEqual(items.flatMap(({ content, arguments: words }) => content ?? [words]))
      const content = tongues['openai-responses']?.read(response) ?? { text: '', calls: [] }
      expect(content.text).toBe(text.join(''))
      return content
    },
    read: (body) => {
      const { output } = body as Json
      return {
        text: output.flatMap(({ content = [] }: Json) => content.map(({ text }: Json) => text)).join(''),
        calls: output
          .filter((block: Json) => block.type === 'function_call')
          .map((call: Json) => ({ name: call.name, input: JSON.parse(call.arguments) })),
      }
    },
    shell: { name: 'exec_command', input: { cmd: 'echo hi', yield_time_ms: 30_000 } },
  },

  'openai-chat': {
    path: () => '/v1/chat/completions',
    ask: (prompt, stream) => ({
      model: 'm',
      stream,
      tools: [{ type: 'function', function: { name: 'bash' } }],
      messages: [
        { role: 'system', content: 'You are hello.' },
        { role: 'user', content: prompt },
      ],
    }),
    answered: (prompt, result) => {
      const first = tongues['openai-chat']?.ask(prompt, true) ?? {}
      const call = { id: 'c', type: 'function', function: { name: 'bash', arguments: '{}' } }
      return {
        ...first,
        messages: [
          ...first.messages,
          { role: 'assistant', content: '', tool_calls: [call] },
          { role: 'tool', tool_call_id: 'c', content: result },
        ],
      }
    },
    hear: (events) => {
      const choices = events.flatMap((event) => event.choices ?? [])
      // Clients concatenate the values of each field of the deltas, also of `role`. So `role` must come only once.
      expect(choices.map(({ delta }) => delta.role ?? '').join('')).toBe('assistant')
      const calls = choices.flatMap(({ delta }) => delta.tool_calls ?? [])
      expect(choices.at(-1)?.finish_reason).toBe(calls.length > 0 ? 'tool_calls' : 'stop')
      return {
        text: choices.map(({ delta }) => delta.content ?? '').join(''),
        calls: calls.map(({ function: { name, arguments: words } }) => ({ name, input: JSON.parse(words) })),
      }
    },
    read: (body) => {
      const { choices } = body as Json
      return {
        text: choices[0].message.content ?? '',
        calls: (choices[0].message.tool_calls ?? []).map((call: Json) => ({
          name: call.function.name,
          input: JSON.parse(call.function.arguments),
        })),
      }
    },
    shell: { name: 'bash', input: { command: 'echo hi', description: expect.any(String) } },
  },

  gemini: {
    path: (isStreaming) => `/v1beta/models/gemini-x:${isStreaming ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
    ask: (prompt) => ({
      tools: [{ functionDeclarations: [{ name: 'run_shell_command' }] }],
      contents: [{ role: 'user', parts: [{ text: '<session_context>hello</session_context>' }, { text: prompt }] }],
    }),
    answered: (prompt, result) => {
      const first = tongues.gemini?.ask(prompt, true) ?? {}
      const call = { role: 'model', parts: [{ functionCall: { name: 'run_shell_command', args: {} } }] }
      return {
        ...first,
        contents: [
          ...first.contents,
          call,
          { role: 'user', parts: [{ functionResponse: { name: 'run_shell_command', response: { output: result } } }] },
        ],
      }
    },
    hear: (events) => {
      expect(events.at(-1)?.candidates[0].finishReason).toBe('STOP')
      return (
        tongues.gemini?.read({ candidates: [{ content: { parts: events.flatMap((event) => event.candidates[0].content.parts) } }] }) ?? {
          text: '',
          calls: [],
        }
      )
    },
    read: (body) => {
      const { candidates } = body as Json
      const { parts } = candidates[0].content
      return {
        text: parts.map(({ text = '' }: Json) => text).join(''),
        calls: parts.flatMap(({ functionCall }: Json) => (functionCall ? [{ name: functionCall.name, input: functionCall.args }] : [])),
      }
    },
    shell: { name: 'run_shell_command', input: { command: 'echo hi' } },
  },
}

/**
 * The parts of a Responses API stream, by their `added`, `delta` and `done` events. A client may read any of the three, so they must
 * agree.
 */
function partsIn(events: readonly Json[]): readonly unknown[] {
  const ended = events.filter(({ type }) => /^response\.(content_part|function_call_arguments)\.done$/.test(type))
  return ended.map(({ item_id, part, arguments: words }) => {
    const deltas = events.filter((event) => event.item_id === item_id && event.type.endsWith('.delta')).map(({ delta }) => delta)
    expect(deltas.join('')).toBe(part?.text ?? words)
    return part ?? words
  })
}
