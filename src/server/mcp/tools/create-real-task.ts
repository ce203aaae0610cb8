import { z } from 'zod'
import { EbbError } from '../../../core/model/errors.ts'
import { priorities } from '../../../core/model/task.ts'
import { defaultNamespace } from '../../http/launch.ts'
import { argument } from '../../http/schemas.ts'
import { resultSchema } from '../result.ts'
import { adding, defineTool, onlyOrchestrator } from '../tool.ts'

const folder = argument.max(4_096).regex(/^\//, 'must be an absolute path')

export const createRealTask = defineTool({
  name: 'create_real_task',
  title: 'Create a task',
  description: 'Creates a task and its workspace. Deploy agents into it with deploy_headless_agent, and end it with complete_real_task.',
  callers: onlyOrchestrator('An agent may not create tasks; only the orchestrator may.'),
  annotations: adding,
  arguments: z.object({
    description: z.string().min(1).max(10_000).describe('The goal of the task, in one or two sentences; every agent of the task gets it.'),
    priority: z.enum(priorities).default('P2').describe('P0 is the most urgent.'),
    workspace_base: folder.optional().describe('The absolute path of the folder in which the workspace is made; by default client_cwd.'),
    client_cwd: folder
      .optional()
      .describe(
        'The absolute path of the folder that you work in; the agents of the task work there too. By default workspace_base, else the folder of the MCP server.',
      ),
  }),
  result: resultSchema({ task_id: z.string(), workspace: z.string(), status: z.string() }),
  run: async ({ args: { description, priority, workspace_base, client_cwd }, asking, control }) => {
    const own = (): string => asking.cwd ?? ownFolder()
    const base = workspace_base ?? client_cwd ?? own()
    const cwd = client_cwd ?? workspace_base ?? own()
    const namespace = asking.namespace ?? defaultNamespace
    const task = await control.tasks.create({ namespace, description, priority, base, cwd, caller: asking.caller })
    return {
      success: true,
      task_id: task.id,
      workspace: task.workspace,
      status: 'active',
      namespace: task.namespace,
      description: task.description,
      priority: task.priority,
      created_at: task.createdAt,
    }
  },
})

function ownFolder(): string {
  try {
    return process.cwd()
  } catch (cause) {
    throw new EbbError('invalid_request', 'The folder that Ebb was started in does not exist any more; give a workspace_base.', { cause })
  }
}
