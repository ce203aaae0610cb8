import { z } from 'zod'
import { taskId } from '../arguments.ts'
import { callerFields } from '../asking.ts'
import { resultSchema } from '../result.ts'
import { taskStatus } from '../task-status.ts'
import { defineTool, reading } from '../tool.ts'

const listed = z.array(z.looseObject({ agent_id: z.string(), status: z.string() }))

export const getRealTaskStatus = defineTool({
  name: 'get_real_task_status',
  title: 'Status of a task',
  description:
    'Shows the task, its agents with their last progress and how they ended, which agent deployed which, and how much of each limit is used. An agent with "stuck" has reported nothing for a long time.',
  callers: 'everybody',
  annotations: reading,
  arguments: z.object({ task_id: taskId }),
  result: resultSchema({
    task_id: z.string(),
    description: z.string(),
    status: z.string(),
    workspace: z.string(),
    agents: z.looseObject({ total_spawned: z.number(), active: z.number(), completed: z.number(), agents_list: listed }),
    hierarchy: listed,
    limits: z.looseObject({}),
  }),
  run: async ({ args: { task_id }, asking, control }) =>
    taskStatus(await control.tasks.status({ taskId: task_id, ...callerFields(asking) })),
})
