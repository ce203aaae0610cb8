import { setTimeout as pause } from 'node:timers/promises'
import type { AnswerWriter, Api, Failure } from './api.ts'
import type { Conversation, Json, OfferedTool } from './conversation.ts'
import type { Outlet } from './outlet.ts'
import type { Pace, Step } from './script.ts'

/** Sends the steps of one turn to one client. Ends early when `signal` is aborted, because the client has disconnected. */

export interface AnswerContext {
  readonly api: Api
  readonly conversation: Conversation
  readonly outlet: Outlet
  readonly signal: AbortSignal
}

export type Ended = 'answered' | 'cut'

export async function play(steps: readonly Step[], context: AnswerContext): Promise<Ended> {
  const { api, conversation, outlet, signal } = context
  const writer = api.openAnswer(conversation, outlet)
  for (const step of steps) {
    if ('error' in step) {
      fail(step, context, writer)
      return 'answered'
    }
    if ('cut' in step) {
      await outlet.cut()
      return 'cut'
    }
    if ('text' in step) await sendText(writer, step.text, step.pace, context)
    else if ('endless' in step) await sendEndlessly(writer, step.endless, step.pace, context)
    else if ('stall' in step) await stall(step.stall, context)
    else {
      const { tool, input } = toolCall(step, conversation.tools)
      if (!tool) {
        failWithoutShellTool(conversation, context, writer)
        return 'answered'
      }
      writer.call(tool, input)
    }
    await outlet.room(signal)
  }
  writer.end()
  return 'answered'
}

async function sendText(writer: AnswerWriter, text: string, pace: Pace | undefined, { outlet, signal }: AnswerContext): Promise<void> {
  if (!pace) {
    writer.text(text, true)
    return
  }
  for (const piece of pieces(text, pace.chars)) {
    writer.text(piece, true)
    await outlet.room(signal)
    await pause(pace.everyMs, undefined, { signal })
  }
}

async function sendEndlessly(
  writer: AnswerWriter,
  text: string,
  pace: Pace,
  { conversation, outlet, signal }: AnswerContext,
): Promise<void> {
  // A client that does not stream waits for a complete answer, and an endless text never completes. So nothing is sent until the client
  // disconnects.
  if (!conversation.isStreaming) await untilDisconnected(signal)
  for (;;) {
    for (const piece of pieces(text, pace.chars)) {
      writer.text(piece, false)
      await outlet.room(signal)
      await pause(pace.everyMs, undefined, { signal })
    }
  }
}

async function stall(ms: number | 'forever', { conversation, outlet, signal }: AnswerContext): Promise<void> {
  if (conversation.isStreaming) outlet.open()
  await (ms === 'forever' ? untilDisconnected(signal) : pause(ms, undefined, { signal }))
}

function untilDisconnected(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}

function pieces(text: string, chars: number): readonly string[] {
  const letters = [...text]
  return Array.from({ length: Math.ceil(letters.length / chars) }, (_, index) => letters.slice(index * chars, (index + 1) * chars).join(''))
}

function fail(
  { error, message, retryAfterMs }: Extract<Step, { error: number }>,
  { api, outlet }: AnswerContext,
  writer: AnswerWriter,
): void {
  const failure: Failure = { status: error, message: message ?? usualMessages[error] ?? 'The script returns this error.' }
  if (outlet.hasBegun) {
    writer.fail(failure)
    return
  }
  const seconds =
    retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfterMs / 1000)), 'retry-after-ms': String(retryAfterMs) }
  outlet.json(error, api.error(failure), seconds)
}

const usualMessages: Readonly<Record<number, string>> = { 429: 'Too many requests.', 500: 'Internal server error.', 529: 'Overloaded' }

function failWithoutShellTool(conversation: Conversation, { api, outlet }: AnswerContext, writer: AnswerWriter): void {
  const names = conversation.tools.map(({ name }) => name).join(', ') || 'none'
  const failure = {
    status: 400,
    message: `The script runs a command, but the agent offers no known shell tool; it offers: ${names}.`,
  }
  if (outlet.hasBegun) writer.fail(failure)
  else outlet.json(400, api.error(failure))
}

type Called = { readonly tool: OfferedTool | undefined; readonly input: Json }

function toolCall(step: Extract<Step, { shell: string } | { tool: string }>, tools: readonly OfferedTool[]): Called {
  if ('shell' in step) {
    const [tool, input] =
      shells.flatMap(([name, words]) => tools.filter((one) => one.name === name).map((one) => [one, words] as const))[0] ?? []
    return { tool, input: input?.(step.shell) ?? {} }
  }
  const { tool: name, input } = step
  const found = tools.find((one) => one.name === name) ?? tools.find((one) => new RegExp(`[_.]${RegExp.escape(name)}$`).test(one.name))
  // The agent's list of tools lacks those that it loads on demand, so the call of an unlisted tool is sent to the agent. An agent without
  // that tool reports an error.
  return { tool: found ?? { name }, input }
}

/** The name of each agent's shell tool, and the input that it expects. */
const shells: readonly (readonly [name: string, input: (command: string) => Json])[] = [
  ['Bash', (command) => ({ command, description: 'From the script' })],
  ['bash', (command) => ({ command, description: 'From the script' })],
  ['run_shell_command', (command) => ({ command })],
  // `yield_time_ms` is the longest time that codex allows. A command that takes longer continues in the background.
  ['exec_command', (command) => ({ cmd: command, yield_time_ms: 30_000 })],
  ['shell_command', (command) => ({ command })],
  ['shell', (command) => ({ command: ['bash', '-lc', command] })],
]
