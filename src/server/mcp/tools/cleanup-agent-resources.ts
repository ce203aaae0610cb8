import { z } from 'zod'
import { agentId, taskId } from '../arguments.ts'
import { callerFields } from '../asking.ts'
import { cleanedAgent, cleanedAgentFields } from '../cleaned-agent.ts'
import { whileClosing } from '../progress.ts'
import { resultSchema } from '../result.ts'
import { defineTool, ending } from '../tool.ts'

export const cleanupAgentResources = defineTool({
  name: 'cleanup_agent_resources',
  title: 'Clean up after an agent',
  description:
    'Ends an agent if it still runs, and proves that nothing of it is left: session, prompt file, logs, processes. Ebb also does this by itself when an agent ends; call it for the evidence, or with keep_logs false to delete the logs.',
  callers: 'everybody',
  annotations: ending,
  arguments: z.object({
    task_id: taskId,
    agent_id: agentId,
    keep_logs: z
      .boolean()
      .default(true)
      .describe('true: the logs are archived. false: the logs and the archives of this agent are deleted.'),
  }),
  result: resultSchema(cleanedAgentFields),
  run: async ({ args: { task_id, agent_id, keep_logs }, asking, control, notify }) => {
    const closing = { taskId: task_id, agentId: agent_id }
    const clean = () => control.tasks.cleanup({ ...closing, keepLogs: keep_logs, ...callerFields(asking) })
    return cleanedAgent(await whileClosing(control, asking, closing, notify, clean))
  },
})
