import { type MessageBody, type MessageType, messageTypes } from '../core/model/message.ts'
import type { Assignment, Parsed, Provider, ScheduledEvent } from '../core/ports/provider.ts'

/** The schedule of an agent whose launch gives none. */
function defaultSchedule(prompt: string): readonly ScheduledEvent[] {
  return [
    { delay: 20, type: 'message', data: { content: `You said: ${prompt.slice(0, 200)}` } },
    { delay: 40, type: 'message', data: { content: 'I am a synthetic agent: I read nothing and change nothing.' } },
    { delay: 60, type: 'message', data: { content: 'That was all.' } },
    { delay: 80, type: 'complete', data: { success: true } },
  ]
}

/**
 * Plays a schedule of messages, in the supervisor itself or in a real child process (`program`). For tests, demonstrations and
 * benchmarks.
 */
export function synthetic(program: string): Provider {
  return {
    type: 'synthetic',
    name: 'Synthetic agent',
    description: 'Plays a schedule of messages; needs no program, no key and no network.',
    capabilities: {
      streaming: true,
      multiTurn: false,
      toolUse: false,
      fileAccess: false,
      customInstructions: false,
      mcpSupport: false,
      modelSelection: false,
    },
    models: [],
    program: undefined,
    inputs: ['schedule'],

    script: (assignment) => {
      const hasProcess = assignment.configuration.process === true
      const events = scheduleOf(assignment)
      // The child process can only print lines, so the supervisor emits the status events.
      return { hasProcess, events: hasProcess ? events.filter((event) => event.type === 'status') : events }
    },

    invoke: (assignment) => ({
      argv: [process.execPath, program, ...(assignment.configuration.customArgs ?? [])],
      stdin: JSON.stringify(scheduleOf(assignment).filter((event) => event.type !== 'status')),
    }),

    parse: (line) => {
      const event = readEvent(line)
      if (event?.type === 'error') return failure(event.data ?? {})
      return { messages: [event?.type === 'message' ? messageOf(event.data ?? {}) : { type: 'response', content: line }] }
    },
  }
}

function scheduleOf({ prompt, configuration }: Assignment): readonly ScheduledEvent[] {
  return configuration.schedule ?? defaultSchedule(prompt)
}

function readEvent(line: string): ScheduledEvent | undefined {
  try {
    const value = JSON.parse(line) as ScheduledEvent | null
    return typeof value === 'object' && value !== null && typeof value.type === 'string' ? value : undefined
  } catch {
    return undefined
  }
}

function messageOf(data: Readonly<Record<string, unknown>>): MessageBody {
  const type = messageTypes.includes(data.type as MessageType) ? (data.type as MessageType) : 'assistant'
  const metadata = data.metadata
  return {
    type,
    content: typeof data.content === 'string' ? data.content : JSON.stringify(data.content ?? ''),
    ...(typeof data.role === 'string' && { role: data.role }),
    ...(typeof metadata === 'object' && metadata !== null && { metadata: metadata as Record<string, unknown> }),
  }
}

function failure(data: Readonly<Record<string, unknown>>): Parsed {
  const name = typeof data.name === 'string' ? data.name : 'agent_error'
  const message = typeof data.message === 'string' ? data.message : 'The agent failed.'
  return { messages: [{ type: 'error', content: message, metadata: { name } }], result: { isSuccess: false, error: { name, message } } }
}
