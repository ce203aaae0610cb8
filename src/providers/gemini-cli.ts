import type { Provider } from '../core/ports/provider.ts'
import { flag, flagList, instructed, refuse } from './invocation.ts'
import { type Json, object, readable, text } from './json.ts'
import { call, failure, message, parseLine, type Reading, readingOf } from './line.ts'

/** Gemini CLI in headless mode. Flags and output as of 0.61.0. */
export const geminiCli: Provider = {
  type: 'gemini-cli',
  name: 'Gemini CLI',
  description: 'The coding agent of Google, in its headless mode.',
  capabilities: {
    streaming: true,
    multiTurn: true,
    toolUse: true,
    fileAccess: true,
    customInstructions: true,
    // Gemini CLI reads MCP servers only from settings files, which a provider does not write.
    mcpSupport: false,
    modelSelection: true,
  },
  models: [
    model('auto', 'Automatic', 'Gemini CLI chooses by the task.', true),
    model('pro', 'Gemini Pro', 'The latest Pro: for the hardest work.', false),
    model('flash', 'Gemini Flash', 'The latest Flash: for daily work.', false),
    model('flash-lite', 'Gemini Flash-Lite', 'The latest Flash-Lite: the fastest.', false),
  ],
  program: 'gemini',

  invoke: ({ prompt, configuration }) => {
    const { model, sessionId, outputFormat, instructions, allowedTools, disallowedTools, mcp, customArgs } = configuration
    if (disallowedTools?.length) refuse('Gemini CLI cannot be denied certain tools; name the allowed ones in allowedTools instead.')
    if (mcp?.servers.length || mcp?.strict) refuse('Gemini CLI takes MCP servers only from its own settings.json; add them there.')
    return {
      argv: [
        'gemini',
        `--output-format=${outputFormat || 'stream-json'}`,
        // No user can approve anything. With a list, a tool that needs approval and is not on the list is denied.
        ...(allowedTools?.length ? ['--approval-mode=default', ...flagList('--allowed-tools', allowedTools)] : ['--approval-mode=yolo']),
        ...flag('--model', model),
        ...flag('--resume', sessionId),
        ...(customArgs ?? []),
      ],
      env: {
        // Without GEMINI_CLI_NO_RELAUNCH gemini relaunches itself as a child and ignores every signal: it was still running after 20 s.
        GEMINI_CLI_NO_RELAUNCH: 'true',
        // No user can be asked whether the folder is trusted. Launching an agent in it counts as trust.
        GEMINI_CLI_TRUST_WORKSPACE: 'true',
      },
      // Instructions are put in front of the prompt. GEMINI_SYSTEM_MD is no alternative: it names a file, which replaces the system prompt.
      stdin: instructed(prompt, instructions),
      politeSignal: 'SIGTERM',
    }
  },

  parse: (line) => parseLine(line, read),
}

function model(id: string, name: string, description: string, isDefault: boolean): Provider['models'][number] {
  return { id, name, description, contextWindow: 1_048_576, capabilities: ['text', 'tools', 'vision'], isAvailable: true, isDefault }
}

function read(event: Json): Reading | undefined {
  switch (event.type) {
    case 'init':
      return readingOf(
        message('system', `The session began with ${readable(event.model) || 'the default model'}.`, {
          sessionId: text(event.session_id),
          model: text(event.model),
        }),
      )
    case 'message':
      return readingOf(message(event.role === 'user' ? 'user' : 'assistant', readable(event.content), { delta: event.delta }))
    case 'tool_use': {
      const tool = text(event.tool_name) ?? 'tool'
      return readingOf(message('tool', call(tool, object(event.parameters)), { tool, toolUseId: text(event.tool_id) }))
    }
    case 'tool_result':
      return readingOf(
        message('tool', readable(event.output) || readable(object(event.error).message), {
          toolUseId: text(event.tool_id),
          status: text(event.status),
          isError: event.status !== 'success',
        }),
      )
    // The event `error` is a warning or a detected loop. Only the event `result` decides about success.
    case 'error':
      return readingOf(message('error', text(event.message) ?? readable(event), { severity: text(event.severity) }))
    case 'result':
      return result(event)
    default:
      return undefined
  }
}

function result(event: Json): Reading {
  const isSuccess = event.status === 'success'
  const { type, message: reason } = object(event.error)
  const error = { name: text(type) ?? 'agent_failed', message: text(reason) ?? 'Gemini CLI reported that it failed.' }
  const body = message('response', isSuccess ? 'Done.' : error.message, {
    status: text(event.status),
    isError: !isSuccess,
    durationMs: object(event.stats).duration_ms,
    usage: event.stats,
  })
  return { messages: [body], result: isSuccess ? { isSuccess } : failure(error) }
}
