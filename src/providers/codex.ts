import { isAbsolute, join } from 'node:path'
import { environmentTagName } from '../core/model/identity.ts'
import { type CarriedServer, carry, isRemote } from '../core/model/mcp.ts'
import type { Configuration, Provider } from '../core/ports/provider.ts'
import { fits, flag, instructed, refuse } from './invocation.ts'
import { blocksText, type Json, list, object, readable, text } from './json.ts'
import { call, failure, message, parseLine, type Reading, readingOf, thinking } from './line.ts'

/** Codex in headless mode. Flags and output as of 0.166.0. */
export const codex: Provider = {
  type: 'codex',
  name: 'Codex',
  description: 'The coding agent of OpenAI, by codex exec.',
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
    model('gpt-6.1-sol', 'GPT-6.1 Sol', 'What codex chooses by itself.', 272_000, true),
    model('gpt-6.1-terra', 'GPT-6.1 Terra', 'With the larger context.', 500_000, false),
    model('gpt-6-luna', 'GPT-6 Luna', 'Of the generation before.', 272_000, false),
  ],
  program: 'codex',

  invoke: ({ prompt, configuration }) => {
    const { model, sessionId, outputFormat, customArgs, allowedTools, disallowedTools, instructions } = configuration
    if (allowedTools?.length || disallowedTools?.length)
      refuse('Codex cannot be limited to certain tools; leave out allowedTools and disallowedTools, or use another provider.')
    const mcp = mcpOf(configuration)
    const developer = instructions ? [`--config=developer_instructions=${toml(instructions)}`] : []
    const isDeveloper = developer.every(fits)
    return {
      argv: [
        'codex',
        'exec',
        ...(sessionId ? ['resume'] : []),
        ...(outputFormat === 'text' ? [] : ['--json']),
        '--skip-git-repo-check',
        // No user can approve anything. The flag also disables the sandbox of codex, which an Ebb scope does not replace: a scope does not
        // protect files.
        '--dangerously-bypass-approvals-and-sandbox',
        ...flag('--model', model),
        ...(isDeveloper ? developer : []),
        ...mcp.argv,
        ...(sessionId ? [sessionId] : []),
        // `-`: read the prompt from the standard input.
        '-',
        ...(customArgs ?? []),
      ],
      env: { ...mcp.env },
      stdin: isDeveloper ? prompt : instructed(prompt, instructions),
      // After any other signal codex leaves behind MCP servers that ignore the end of their input.
      politeSignal: 'SIGINT',
    }
  },

  parse: (line) => parseLine(line, read),

  leaves: (env) => {
    const folder = env.CODEX_HOME || (env.HOME ? join(env.HOME, '.codex') : '')
    // Shell snapshots contain the whole environment. The locks and the folder of symlinks that codex leaves are removed by its next start.
    return isAbsolute(folder) ? [{ folder: join(folder, 'shell_snapshots'), name: '.+\\.sh' }] : []
  },
}

function model(id: string, name: string, description: string, contextWindow: number, isDefault: boolean): Provider['models'][number] {
  return { id, name, description, contextWindow, capabilities: ['text', 'tools'], isAvailable: true, isDefault }
}

/** A TOML string. JSON strings are valid TOML, except for DEL and lone surrogates. Codex takes invalid TOML literally, with its quotes. */
function toml(value: string): string {
  return JSON.stringify(value.toWellFormed()).replaceAll('\u007f', '\\u007f')
}

function tomlList(values: readonly string[]): string {
  return `[${values.map(toml).join(',')}]`
}

/**
 * Passes all servers as one table, because a name with a dot cannot be part of a dotted key. Codex adds them to those of its own
 * configuration.
 */
function mcpOf({ mcp }: Configuration): { argv: readonly string[]; env?: Readonly<Record<string, string>> } {
  if (!mcp) return { argv: [] }
  if (mcp.strict)
    refuse(
      'Codex always uses the MCP servers of its own configuration too; leave out mcp.strict, or add --ignore-user-config to customArgs.',
    )
  const { servers, env } = carry(mcp.servers)
  if (servers.length === 0) return { argv: [] }
  return { argv: [`--config=mcp_servers={${servers.map((one) => `${toml(one.server.name)}={${serverTable(one)}}`).join(',')}}`], env }
}

/**
 * The table of one MCP server. Codex passes to a server only a few variables, and those listed in `env_vars` under their own names. The
 * environment tag is listed, because otherwise a server that outlives codex could not be recognised. A shell renames the variables that
 * carry the values of the server.
 */
function serverTable({ server, carriers }: CarriedServer): string {
  if (isRemote(server)) return `url=${toml(server.command)}`
  const argv = [server.command, ...(server.args ?? [])]
  const pairs = Object.entries(carriers)
  const [command = '', ...args] =
    pairs.length === 0 ? argv : ['/bin/sh', '-c', `${pairs.map(exportLine).join('; ')}; exec "$0" "$@"`, ...argv]
  return `command=${toml(command)},args=${tomlList(args)},env_vars=${tomlList([environmentTagName, ...Object.values(carriers)])}`
}

function exportLine([name, carrier]: [string, string]): string {
  if (!/^[A-Za-z_]\w*$/.test(name)) refuse(`${name} cannot be the name of a variable of an MCP server of codex.`)
  return `export ${name}="$${carrier}"; unset ${carrier}`
}

function read(event: Json): Reading | undefined {
  switch (event.type) {
    case 'thread.started':
      return readingOf(message('system', 'The thread began.', { sessionId: text(event.thread_id) }))
    case 'turn.started':
      return readingOf(message('system', 'The turn began.'))
    case 'turn.completed':
      return { messages: [message('system', 'The turn is complete.', { usage: event.usage })], result: { isSuccess: true } }
    case 'turn.failed': {
      const reason = text(object(event.error).message) ?? 'Codex reported that its turn failed.'
      return { messages: [message('error', reason)], result: failure({ name: 'turn_failed', message: reason }) }
    }
    // The event `error` is not a result: "Reconnecting... 1/5" is such an event, and the turn may still be completed.
    case 'error':
      return readingOf(message('error', text(event.message) ?? readable(event)))
    case 'item.started':
    case 'item.updated':
    case 'item.completed':
      return item(object(event.item), event.type === 'item.completed')
    default:
      return undefined
  }
}

function item(item: Json, isCompleted: boolean): Reading | undefined {
  const itemId = text(item.id)
  switch (item.type) {
    case 'agent_message':
      return readingOf(message('assistant', text(item.text) ?? '', { itemId }))
    case 'reasoning':
      return readingOf(thinking(text(item.text) ?? '', { itemId }))
    case 'error':
      return readingOf(message('error', text(item.message) ?? readable(item)))
    case 'todo_list':
      return readingOf(message('system', list(item.items).map(todo).join('\n'), { itemId }))
    case 'command_execution':
      return tool(item, 'shell', text(item.command) ?? '', isCompleted ? text(item.aggregated_output) : undefined)
    case 'file_change':
      return tool(item, 'file_change', list(item.changes).map(change).join('\n'))
    case 'web_search':
      return tool(item, 'web_search', call('web_search', item))
    case 'mcp_tool_call': {
      const name = `${readable(item.server)}.${readable(item.tool)}`
      const output = text(object(item.error).message) ?? blocksText(object(item.result).content)
      return tool(item, name, call(name, object(item.arguments)), output || undefined)
    }
    default:
      return undefined
  }
}

function tool(item: Json, name: string, what: string, output?: string): Reading {
  return readingOf(
    message('tool', output ? `${what}\n${output}` : what, {
      tool: name,
      toolUseId: text(item.id),
      status: text(item.status),
      exitCode: item.exit_code,
      isError: item.status === 'failed' ? true : undefined,
    }),
  )
}

function change(value: unknown): string {
  return `${readable(object(value).kind)} ${readable(object(value).path)}`
}

function todo(value: unknown): string {
  return `${object(value).completed === true ? '[x]' : '[ ]'} ${readable(object(value).text)}`
}
