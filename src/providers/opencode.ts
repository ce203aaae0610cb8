import { isRemote, type McpServer } from '../core/model/mcp.ts'
import type { Configuration, Provider } from '../core/ports/provider.ts'
import { flag, instructed, refuse } from './invocation.ts'
import { type Json, object, readable, text } from './json.ts'
import { call, failure, message, parseLine, type Reading, readingOf, thinking } from './line.ts'

const configVariable = 'OPENCODE_CONFIG_CONTENT'

/** OpenCode in headless mode. Flags and output as of 1.18.33. Its output has no final result, so the exit code decides. */
export const opencode: Provider = {
  type: 'opencode',
  name: 'OpenCode',
  description: 'The open coding agent, by opencode run, with the models of any vendor.',
  capabilities: {
    streaming: true,
    multiTurn: true,
    toolUse: true,
    fileAccess: true,
    customInstructions: true,
    mcpSupport: true,
    modelSelection: true,
  },
  // A selection of models. The user's configuration decides which models exist and which is the default; `opencode models` lists hundreds.
  models: [
    model('anthropic/claude-opus-5', 'Claude Opus 5', 1_000_000),
    model('anthropic/claude-sonnet-5', 'Claude Sonnet 5', 1_000_000),
    model('anthropic/claude-haiku-4-5', 'Claude Haiku 4.5', 200_000),
    model('opencode/big-pickle', 'Big Pickle', 200_000),
  ],
  program: 'opencode',

  invoke: ({ prompt, configuration }) => {
    const { model, sessionId, outputFormat, workingDirectory, instructions, mcp, customArgs } = configuration
    if (mcp?.strict) refuse('OpenCode always uses the MCP servers of its own configuration too; leave out mcp.strict.')
    const rules = rulesOf(configuration)
    const content = contentOf(rules, mcp?.servers ?? [])
    if (content && configuration.env?.[configVariable] !== undefined)
      refuse(
        `Ebb passes tools and MCP servers to OpenCode in ${configVariable}; leave them out, or remove the variable from configuration.env.`,
      )
    return {
      argv: [
        'opencode',
        'run',
        ...(outputFormat === 'text' ? [] : ['--format=json']),
        // No user can approve anything, so everything is approved that is not denied.
        '--auto',
        ...flag('--model', model),
        ...flag('--session', sessionId),
        // OpenCode trusts the variable PWD more than its real working directory, so the directory is also passed as an option.
        ...flag('--dir', workingDirectory?.startsWith('/') ? workingDirectory : undefined),
        ...(rules ? ['--agent=build'] : []),
        ...(customArgs ?? []),
      ],
      env: content ? { [configVariable]: JSON.stringify(content) } : {},
      // Instructions are put in front of the prompt, because a prompt in OpenCode's configuration would replace its own system prompt.
      stdin: instructed(prompt, instructions),
    }
  },

  parse: (line) => parseLine(line, read),
}

function model(id: string, name: string, contextWindow: number): Provider['models'][number] {
  const description = `By the provider ${id.split('/')[0]} of OpenCode.`
  return { id, name, description, contextWindow, capabilities: ['text', 'tools'], isAvailable: true, isDefault: false }
}

/** OpenCode has one rule, `edit`, for all tools that write files. */
const editTools = new Set(['edit', 'write', 'patch', 'multiedit', 'apply_patch'])

type Rules = Readonly<Record<string, 'allow' | 'deny'>>

function rulesOf({ allowedTools = [], disallowedTools = [] }: Configuration): Rules | undefined {
  if (allowedTools.length + disallowedTools.length === 0) return undefined
  const named = (tools: readonly string[], verdict: 'allow' | 'deny'): Rules =>
    Object.fromEntries(tools.map((tool) => [editTools.has(tool) ? 'edit' : tool, verdict]))
  return { ...(allowedTools.length > 0 && { '*': 'deny' }), ...named(allowedTools, 'allow'), ...named(disallowedTools, 'deny') }
}

/**
 * The configuration in OPENCODE_CONFIG_CONTENT. It has the rules twice: those of the agent `build` come last, so they override the
 * user's configuration; the general ones apply to the subagents.
 */
function contentOf(rules: Rules | undefined, servers: readonly McpServer[]): Json | undefined {
  if (!rules && servers.length === 0) return undefined
  return {
    ...(rules && { permission: rules, agent: { build: { permission: rules } } }),
    ...(servers.length > 0 && { mcp: Object.fromEntries(servers.map((server) => [server.name, entryOf(server)])) }),
  }
}

function entryOf(server: McpServer): Json {
  if (isRemote(server)) return { type: 'remote', url: server.command, enabled: true }
  return { type: 'local', command: [server.command, ...(server.args ?? [])], environment: server.env ?? {}, enabled: true }
}

function read(event: Json): Reading | undefined {
  const part = object(event.part)
  switch (event.type) {
    case 'text':
      return readingOf(message('assistant', text(part.text) ?? ''))
    case 'reasoning':
      return readingOf(thinking(text(part.text) ?? ''))
    case 'tool_use':
      return readingOf(tool(part))
    case 'step_start':
      return readingOf(message('system', 'A step began.', { sessionId: text(event.sessionID) }))
    case 'step_finish':
      return readingOf(
        message('system', `The step is complete: ${readable(part.reason) || 'no reason given'}.`, {
          reason: text(part.reason),
          usage: part.tokens,
          costUsd: part.cost,
        }),
      )
    case 'error':
      return error(object(event.error))
    default:
      return undefined
  }
}

function tool(part: Json): ReturnType<typeof message> {
  const state = object(part.state)
  const input = object(state.input)
  // A call of an unknown tool is reported as a call of `invalid`; the real name is in the input.
  const isUnknown = part.tool === 'invalid'
  const name = (isUnknown ? text(input.tool) : text(part.tool)) ?? 'tool'
  const output = text(state.error) ?? text(state.output)
  const what = isUnknown ? name : call(name, input)
  const { exit } = object(state.metadata)
  return message('tool', output ? `${what}\n${output}` : what, {
    tool: name,
    toolUseId: text(part.callID),
    status: text(state.status),
    exitCode: exit,
    // OpenCode reports a command with a non-zero exit code as "completed".
    isError: state.status === 'error' || isUnknown || (typeof exit === 'number' && exit !== 0),
  })
}

function error(reported: Json): Reading {
  const name = text(reported.name) ?? 'agent_failed'
  const reason = text(object(reported.data).message) ?? text(reported.message) ?? (readable(reported) || name)
  const messages = [message('error', reason, { name })]
  // After a context overflow OpenCode compacts its context and continues, so this error is no result.
  return name === 'ContextOverflowError' ? { messages } : { messages, result: failure({ name, message: reason }) }
}
