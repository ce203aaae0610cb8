import { z } from 'zod'
import { agentId, taskId } from '../arguments.ts'
import { callerFields } from '../asking.ts'
import { resultSchema } from '../result.ts'
import { defineTool, reading } from '../tool.ts'

export const getAgentOutput = defineTool({
  name: 'get_agent_output',
  title: 'Output of an agent',
  description:
    'Reads the lines that an agent wrote to its standard output, also after it has ended. To read on, pass "next" of one answer as "since" of the next call.',
  callers: 'everybody',
  annotations: reading,
  arguments: z.object({
    task_id: taskId,
    agent_id: agentId,
    tail: z.number().int().min(1).max(10_000).optional().describe('Only the last lines, at most this many.'),
    since: z.number().int().min(0).optional().describe('Only lines after this position: "next" of an earlier answer.'),
  }),
  result: resultSchema({ output: z.array(z.string()), next: z.number() }),
  run: async ({ args: { task_id, agent_id, tail, since }, asking, control }) => {
    const wanted = { ...(tail !== undefined && { tail }), ...(since !== undefined && { since }) }
    const { lines, next } = await control.tasks.output({ taskId: task_id, agentId: agent_id, ...callerFields(asking), ...wanted })
    return { success: true, agent_id, output: lines, next }
  },
})
