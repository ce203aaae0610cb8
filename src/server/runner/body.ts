import { z } from 'zod'
import { EbbError } from '../../core/model/errors.ts'
import type { McpServer } from '../../core/model/mcp.ts'
import type { Configuration } from '../../core/ports/provider.ts'
import type { RunnerOrder } from '../../core/ports/runner.ts'
import { read } from '../http/route.ts'
import * as schemas from '../http/schemas.ts'

/** The body of `POST /agent/start` and `/agent/stream`: the fields of the runner protocol (docs/in-depth/runner.md), and Ebb's additions. */

const { shape } = schemas.configuration
/** Some clients send `null` or an empty text for an absent field. */
const optional = <T extends z.ZodType>(schema: T) => z.preprocess((value) => (value === '' ? undefined : value), schema.nullish())
const tools = z.union([
  z.array(schemas.argument).max(1_000),
  // A list of tools may also be a text with commas, because the agent programs accept such a text.
  schemas.argument.transform(toolsIn),
])

const body = z.object({
  prompt: schemas.launchBody.shape.prompt,
  type: optional(schemas.launchBody.shape.type),
  session_id: optional(shape.sessionId),
  model: optional(shape.model),
  working_directory: optional(shape.workingDirectory),
  mcp_config: optional(z.string().max(1_048_576)),
  mcp_strict: optional(z.boolean()),
  allowed_tools: optional(tools),
  disallowed_tools: optional(tools),
  agent_id: optional(schemas.agentId),
  configuration: optional(schemas.configuration),
})

const serverOf = shape.mcp.unwrap().shape.servers.element
/**
 * The format of the agent programs' own files: an MCP server is a command, or the URL of a running server. Other fields, such as a
 * description, are dropped.
 */
const mcpConfig = z.object({
  mcpServers: z.record(
    z.string(),
    z.object({
      command: serverOf.shape.command.optional(),
      args: serverOf.shape.args,
      env: serverOf.shape.env,
      transport: serverOf.shape.transport,
      type: z.enum(['stdio', 'http', 'sse', 'streamable-http']).optional(),
      url: schemas.argument.min(1).optional(),
      // Headers cannot be passed on, and the server would refuse the agent without them, so the launch is refused.
      headers: z.record(z.string(), z.never('cannot be passed on to an MCP server; use a server that needs none')).optional(),
    }),
  ),
})

export const stopBody = z.object({ force: z.boolean().nullish() })

export function readOrder(value: unknown): Omit<RunnerOrder, 'agentId'> & { readonly agentId?: string } {
  const order = read(body, value, 'body') as z.output<typeof body>
  const servers = typeof order.mcp_config === 'string' ? serversIn(order.mcp_config) : undefined
  const own = order.configuration ?? {}
  const given = {
    sessionId: order.session_id,
    model: order.model,
    workingDirectory: order.working_directory,
    allowedTools: order.allowed_tools,
    disallowedTools: order.disallowed_tools,
    mcp:
      servers || typeof order.mcp_strict === 'boolean'
        ? { servers: servers ?? own.mcp?.servers ?? [], strict: order.mcp_strict }
        : undefined,
  }
  return {
    type: order.type ?? 'claude-code',
    prompt: order.prompt,
    configuration: compact({ ...own, ...compact(given) }) as Configuration,
    ...(typeof order.agent_id === 'string' && { agentId: order.agent_id }),
  }
}

function serversIn(text: string): readonly McpServer[] {
  const { mcpServers } = inConfig(mcpConfig, parsed(text))
  const servers = Object.entries(mcpServers).map(([name, { command, url, type, transport, headers: _none, ...rest }]) => ({
    name,
    command: command ?? url ?? '',
    ...(url !== undefined && { transport: transport ?? (type === 'sse' ? 'sse' : 'http') }),
    ...(url === undefined && transport !== undefined && { transport }),
    ...rest,
  }))
  return inConfig(shape.mcp.unwrap(), { servers }).servers as readonly McpServer[]
}

/** Splits a list of tools at its commas, except inside the parentheses of a tool's rule: `Bash(git log, git diff),Read`. */
function toolsIn(text: string): readonly string[] {
  const tools = ['']
  let depth = 0
  for (const letter of text) {
    if (letter === '(') depth += 1
    if (letter === ')') depth = Math.max(0, depth - 1)
    if (letter === ',' && depth === 0) tools.push('')
    else tools[tools.length - 1] += letter
  }
  return tools.map((tool) => tool.trim()).filter((tool) => tool !== '')
}

/** Validates a part of `mcp_config`; errors name its place in the body. */
function inConfig<T extends z.ZodType>(schema: T, value: unknown): z.output<T> {
  return (read(z.object({ mcp_config: schema }), { mcp_config: value }, 'body') as { readonly mcp_config: z.output<T> }).mcp_config
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    const message = 'must be a JSON text such as {"mcpServers": {…}}'
    throw new EbbError('invalid_request', `The body is invalid: mcp_config ${message}.`, {
      cause,
      details: [{ path: 'mcp_config', message: `It ${message}.` }],
    })
  }
}

function compact(value: object): object {
  return Object.fromEntries(Object.entries(value).filter(([, part]) => part !== undefined && part !== null))
}
