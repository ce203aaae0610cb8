import { isAbsolute, join } from 'node:path'
import { carry } from '../core/model/mcp.ts'
import type { Configuration, Provider } from '../core/ports/provider.ts'
import { fits, flag, flagList, instructed } from './invocation.ts'
import { blocksText, type Json, list, object, readable, text } from './json.ts'
import { call, failure, message, parseLine, type Reading, readingOf, thinking } from './line.ts'

/** Claude Code in headless mode. Flags and output as of 2.1.325. */
export const claudeCode: Provider = {
  type: 'claude-code',
  name: 'Claude Code',
  description: 'The coding agent of Anthropic, in its print mode.',
  capabilities: {
    streaming: true,
    multiTurn: true,
    toolUse: true,
    fileAccess: true,
    customInstructions: true,
    mcpSupport: true,
    modelSelection: true,
  },
  models: [
    model('opus', 'Claude Opus', 'The latest Opus: for the hardest work.', true),
    model('sonnet', 'Claude Sonnet', 'The latest Sonnet: for daily work.', false),
    model('haiku', 'Claude Haiku', 'The latest Haiku: the fastest.', false),
  ],
  program: 'claude',

  invoke: ({ prompt, configuration, mcpFile }) => {
    const { model, sessionId, outputFormat, disallowedTools, customArgs } = configuration
    const permissions = permissionsOf(configuration)
    const mcp = mcpOf(configuration, mcpFile)
    const appended = flag('--append-system-prompt', configuration.instructions)
    const isAppended = appended.every(fits)
    return {
      argv: [
        'claude',
        '--print',
        `--output-format=${outputFormat || 'stream-json'}`,
        // Claude refuses stream-json without --verbose.
        '--verbose',
        ...permissions.argv,
        ...flagList('--disallowedTools', disallowedTools),
        ...flag('--model', model),
        // --session-id would refuse an existing session.
        ...flag('--resume', sessionId),
        ...(isAppended ? appended : []),
        ...mcp.argv,
        ...(customArgs ?? []),
      ],
      env: { ...permissions.env, ...mcp.env },
      stdin: isAppended ? prompt : instructed(prompt, configuration.instructions),
      // After SIGTERM claude may leave the shell of a tool that it has just started. After SIGINT its tools end within 150 ms.
      politeSignal: 'SIGINT',
    }
  },

  parse: (line) => parseLine(line, read),

  leaves: (env) => {
    const folder = env.CLAUDE_CONFIG_DIR || (env.HOME ? join(env.HOME, '.claude') : '')
    if (!isAbsolute(folder)) return []
    return [
      // Shell snapshots, which every tool shell sources. The last line sets the PATH.
      { folder: join(folder, 'shell-snapshots'), name: 'snapshot-.+\\.sh' },
      // Session files, by which other processes find the socket of a claude process. The key file beside a session file belongs to the same
      // process.
      {
        folder: join(folder, 'sessions'),
        name: '\\d+\\.json',
        kin: { name: '{stem}\\.[0-9a-f]+\\.key', shares: ['"procStart":"[^"]+"', '"pidDomain":"[^"]+"'] },
      },
    ]
  },
}

function model(id: string, name: string, description: string, isDefault: boolean): Provider['models'][number] {
  return { id, name, description, contextWindow: 200_000, capabilities: ['text', 'tools', 'vision'], isAvailable: true, isDefault }
}

/**
 * No user can approve anything, so by default all tools are allowed; as root claude accepts that only with IS_SANDBOX. With `allowedTools`
 * the mode is `dontAsk`, which denies everything that would need approval; the mode that allows all tools would ignore the list.
 */
function permissionsOf({ allowedTools }: Configuration): { argv: readonly string[]; env?: Record<string, string> } {
  if (allowedTools?.length) return { argv: ['--permission-mode=dontAsk', ...flagList('--allowedTools', allowedTools)] }
  return { argv: ['--dangerously-skip-permissions'], env: { IS_SANDBOX: '1' } }
}

/**
 * MCP servers are passed in a file, because arguments are visible in `ps`. Claude expands `${NAME}` in the file, so the values are not
 * in it either.
 */
function mcpOf({ mcp }: Configuration, file: string | undefined): { argv: readonly string[]; env: Readonly<Record<string, string>> } {
  return {
    argv: [...flag('--mcp-config', file), ...(mcp?.strict ? ['--strict-mcp-config'] : [])],
    env: carry(mcp?.servers ?? []).env,
  }
}

function read(event: Json): Reading | undefined {
  switch (event.type) {
    case 'system':
      return readingOf(system(event))
    case 'assistant':
    case 'user':
      return readingOf(...contentMessages(event, event.type))
    case 'result':
      return result(event)
    default:
      return undefined
  }
}

function system(event: Json): ReturnType<typeof message> {
  const { subtype, model } = event
  if (subtype === 'init')
    return message('system', `The session began with ${readable(model) || 'the default model'}.`, {
      subtype,
      sessionId: text(event.session_id),
      model: text(model),
    })
  if (subtype === 'api_retry')
    return message('system', `${retried(event)}; attempt ${readable(event.attempt)} of ${readable(event.max_retries)}.`, { subtype })
  const description = text(event.message) ?? text(event.content) ?? text(event.description)
  return message('system', description ?? (readable(subtype) || 'system'), { subtype: text(subtype) })
}

/** Describes a retry of claude. Without a status there was no complete answer: the connection was refused, or broke. */
function retried({ error, error_status }: Json): string {
  const status = readable(error_status)
  return status ? `The model answered ${readable(error)} (${status})` : `The model gave no whole answer (${readable(error)})`
}

function contentMessages(event: Json, role: 'assistant' | 'user'): ReturnType<typeof message>[] {
  const { content } = object(event.message)
  const shared = { parentToolUseId: text(event.parent_tool_use_id), error: text(event.error) }
  if (typeof content === 'string') return [message(role, content, shared)]
  return list(content).map((value) => {
    const block = object(value)
    switch (block.type) {
      case 'thinking':
      case 'redacted_thinking':
        return thinking(text(block.thinking) ?? '', shared)
      case 'tool_use':
      case 'server_tool_use': {
        const tool = text(block.name) ?? 'tool'
        return message('tool', call(tool, object(block.input)), { tool, toolUseId: text(block.id), ...shared })
      }
      case 'tool_result':
        return message('tool', blocksText(block.content), {
          toolUseId: text(block.tool_use_id),
          isError: block.is_error === true,
          ...shared,
        })
      default:
        return message(role, text(block.text) ?? readable(value), shared)
    }
  })
}

/** `is_error` decides, not `subtype`: after a 400 of the model the subtype is "success" and `is_error` is true. */
function result(event: Json): Reading {
  const subtype = text(event.subtype)
  const isError = event.is_error === undefined ? subtype !== 'success' : Boolean(event.is_error)
  const content = text(event.result) ?? (blocksText(list(event.errors)) || (subtype ?? ''))
  const body = message('response', content, {
    subtype,
    isError,
    numTurns: event.num_turns,
    costUsd: event.total_cost_usd,
    durationMs: event.duration_ms,
    usage: event.usage,
    sessionId: text(event.session_id),
  })
  const name = subtype === undefined || subtype === 'success' ? 'agent_failed' : subtype
  const error = { name, message: content || 'Claude Code reported that it failed.' }
  return { messages: [body], result: isError ? failure(error) : { isSuccess: true } }
}
