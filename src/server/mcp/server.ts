import { McpServer, ProtocolError, ProtocolErrorCode, ResourceTemplate } from '@modelcontextprotocol/server'
import type { Control } from '../../control.ts'
import { EbbError } from '../../core/model/errors.ts'
import type { TaskSummary } from '../../tasks/types.ts'
import { advertised, parseArguments } from './arguments.ts'
import { type Asking, callerFields } from './asking.ts'
import { progressNotifier } from './progress.ts'
import { failureOf, resultOf } from './result.ts'
import { taskStatus } from './task-status.ts'
import type { ToolDefinition } from './tool.ts'
import { tools } from './tools/all.ts'

/** The MCP interface. Each connection has a server of its own, which is the same over stdio and over HTTP. */

export interface McpDeps {
  readonly control: Control
  readonly version: string
}

const instructions = `Ebb runs coding agents and proves that nothing they created outlives them.
Begin with create_real_task, then call deploy_headless_agent for each agent; several agents may run in parallel.
Watch them with get_real_task_status and get_agent_output. Finish with complete_real_task, which ends the agents that still run.
When an answer has "success": false, its "error" says what to do.`

/** How many tasks a list shows, the newest first. */
const tasksListed = 200

export function createMcpServer(deps: McpDeps, asking: Asking): McpServer {
  const capabilities = { tools: { listChanged: false }, resources: { listChanged: false } }
  const server = new McpServer({ name: 'ebb', title: 'Ebb', version: deps.version }, { instructions, capabilities })
  for (const tool of tools) addTool(server, tool, deps, asking)
  addResources(server, deps, asking)
  return server
}

function addTool(server: McpServer, tool: ToolDefinition, { control }: McpDeps, asking: Asking): void {
  const { name, title, description, annotations } = tool
  const config = { title, description, inputSchema: advertised(tool.arguments), outputSchema: tool.result, annotations }
  server.registerTool(name, config, async (given, ctx) => {
    try {
      const args = parseArguments(tool.arguments, given)
      requireCaller(tool, asking)
      return resultOf(await tool.run({ args, asking, control, signal: ctx.mcpReq.signal, notify: progressNotifier(ctx) }))
    } catch (error) {
      return resultOf((tool.failure ?? failureOf)(error, name, control.log))
    }
  })
}

function requireCaller({ callers }: ToolDefinition, { caller }: Asking): void {
  if (callers !== 'everybody' && caller !== callers.only) throw new EbbError('forbidden', callers.refusal)
}

function addResources(server: McpServer, { control }: McpDeps, asking: Asking): void {
  const { tasks, log } = control
  const mimeType = 'application/json'
  const json = (uri: URL, value: object) => ({ contents: [{ uri: uri.href, mimeType, text: JSON.stringify(value) }] })
  const list = async () => (await tasks.list(callerFields(asking))).slice(0, tasksListed)

  server.registerResource('tasks', 'tasks://list', { title: 'Tasks', description: 'All tasks, newest first.', mimeType }, (uri) =>
    asProtocol(async () => json(uri, { tasks: (await list()).map(summaryOf) })),
  )
  const template = new ResourceTemplate('task://{task_id}/status', {
    list: () =>
      asProtocol(async () => ({
        resources: (await list()).map(({ task }) => ({
          uri: `task://${task.id}/status`,
          name: task.id,
          description: task.description.slice(0, 200),
          mimeType,
        })),
      })),
  })
  const about = { title: 'Status of a task', description: 'The same as the answer of get_real_task_status.', mimeType }
  server.registerResource('task-status', template, about, (uri, { task_id }) =>
    asProtocol(async () => json(uri, taskStatus(await tasks.status({ taskId: String(task_id), ...callerFields(asking) })))),
  )

  /** A resource can fail only with an error of the protocol. Its message is the sentence that a tool would answer. */
  async function asProtocol<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read()
    } catch (error) {
      const { error: message, ...data } = failureOf(error, 'resources/read', log)
      const code = error instanceof EbbError ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError
      throw new ProtocolError(code, String(message), data)
    }
  }
}

function summaryOf({ task, status, agents }: TaskSummary): object {
  return {
    task_id: task.id,
    description: task.description,
    status,
    priority: task.priority,
    namespace: task.namespace,
    workspace: task.workspace,
    created_at: task.createdAt,
    ...(task.completedAt !== undefined && { completed_at: task.completedAt }),
    agents,
  }
}
