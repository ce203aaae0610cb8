import type { AgentError, AgentResult } from '../core/model/agent.ts'
import type { MessageBody, MessageType } from '../core/model/message.ts'
import type { Parsed } from '../core/ports/provider.ts'
import { type Json, parseObject, readable, text } from './json.ts'

/** The result of parsing one JSON line. */
export interface Reading {
  readonly messages: readonly MessageBody[]
  readonly result?: AgentResult
}

/**
 * Every line gives at least one message, also an unknown line. Only the first message has the raw object, so that it is stored once.
 */
export function parseLine(line: string, read: (event: Json) => Reading | undefined): Parsed {
  const raw = parseObject(line)
  if (!raw) return { messages: [{ type: 'response', content: line }] }
  const { messages, result } = read(raw) ?? { messages: [] }
  const [first = { type: 'response', content: line }, ...rest] = messages
  return { messages: [{ ...first, raw }, ...rest], ...(result && { result }) }
}

export function message(type: MessageType, content: string, metadata: Json = {}): MessageBody {
  const known = Object.entries(metadata).filter(([, value]) => value !== undefined && value !== null)
  return {
    type,
    ...((type === 'assistant' || type === 'user') && { role: type }),
    content,
    ...(known.length > 0 && { metadata: Object.fromEntries(known) }),
  }
}

export function readingOf(...messages: readonly MessageBody[]): Reading {
  return { messages }
}

export function thinking(content: string, metadata: Json = {}): MessageBody {
  return message('assistant', content, { thinking: true, ...metadata })
}

export function failure(error: AgentError): AgentResult {
  return { isSuccess: false, error }
}

/** Names of the arguments that can summarise a tool call, best first. Long arguments, such as file contents, are only in the raw line. */
const summaryArguments = ['command', 'file_path', 'filePath', 'path', 'pattern', 'query', 'url', 'description']

export function call(tool: string, input: Json): string {
  const summary = summaryArguments.map((name) => text(input[name])).find((value) => value !== undefined)
  return `${tool}: ${summary ?? readable(input)}`
}
