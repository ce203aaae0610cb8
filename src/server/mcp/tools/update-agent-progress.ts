import { z } from 'zod'
import { ownAgentId, reportText, taskId } from '../arguments.ts'
import { callerFields } from '../asking.ts'
import { resultSchema } from '../result.ts'
import { adding, defineTool } from '../tool.ts'

export const updateAgentProgress = defineTool({
  name: 'update_agent_progress',
  title: 'Report progress',
  description:
    'For an agent: reports the progress of its work. Report "completed" or "failed" at the end: the agent is then ended when its program exits, or after 30 seconds.',
  callers: 'everybody',
  annotations: adding,
  arguments: z.object({
    task_id: taskId,
    agent_id: ownAgentId,
    status: z
      .string()
      .min(1)
      .max(100)
      .describe('Such as "working" or "blocked". "completed", "failed" and "terminated" are final: the agent is ended after them.'),
    message: reportText.describe('What was done, or what blocks the work.'),
    progress: z.number().min(0).max(100).default(0).describe('The progress in percent.'),
  }),
  result: resultSchema({
    own_update: z.boolean(),
    cleanup: z.looseObject({ scheduled: z.literal(true), by: z.string() }).optional(),
  }),
  run: async ({ args: { task_id, agent_id, status, message, progress }, asking, control }) => {
    const report = { taskId: task_id, agentId: agent_id, status, message, progress }
    const { isOwn, cleanup } = await control.tasks.progress({ ...report, ...callerFields(asking) })
    return { success: true, own_update: isOwn, ...(cleanup && { cleanup }) }
  },
})
