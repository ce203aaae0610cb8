import { z } from 'zod'
import { isShallow } from '../../http/schemas.ts'
import { ownAgentId, reportText, taskId } from '../arguments.ts'
import { callerFields } from '../asking.ts'
import { resultSchema } from '../result.ts'
import { adding, defineTool } from '../tool.ts'

export const reportAgentFinding = defineTool({
  name: 'report_agent_finding',
  title: 'Report a finding',
  description: 'For an agent: records a finding for the readers of the task.',
  callers: 'everybody',
  annotations: adding,
  arguments: z.object({
    task_id: taskId,
    agent_id: ownAgentId,
    finding_type: z.string().min(1).max(100).describe('Such as "issue", "solution", "insight" or "recommendation".'),
    severity: z.string().min(1).max(100).describe('Such as "low", "medium", "high" or "critical".'),
    message: reportText.describe('What was found.'),
    data: z
      .record(z.string(), z.unknown())
      .refine(isShallow, 'must be nested at most 100 deep')
      .optional()
      .describe('Further data, such as file and line; at most 64 kB as JSON.'),
  }),
  result: resultSchema({ own_finding: z.boolean() }),
  run: async ({ args: { task_id, agent_id, finding_type, severity, message, data }, asking, control }) => {
    const finding = { findingType: finding_type, severity, message, ...(data !== undefined && { data }) }
    const { isOwn } = await control.tasks.finding({ taskId: task_id, agentId: agent_id, ...finding, ...callerFields(asking) })
    return { success: true, own_finding: isOwn }
  },
})
