import { z } from 'zod'
import { taskId } from '../arguments.ts'
import { callerFields } from '../asking.ts'
import { whileClosing } from '../progress.ts'
import { reportSchema, resultSchema } from '../result.ts'
import { defineTool, ending, onlyOrchestrator } from '../tool.ts'

export const completeRealTask = defineTool({
  name: 'complete_real_task',
  title: 'Complete a task',
  description:
    'Closes a task: ends every agent that still runs in it, and proves that nothing of the task is left. Its logs stay archived.',
  callers: onlyOrchestrator('An agent may not complete tasks; only the orchestrator may.'),
  annotations: ending,
  arguments: z.object({ task_id: taskId }),
  result: resultSchema({ report: reportSchema }),
  run: async ({ args: { task_id }, asking, control, notify }) => {
    const complete = () => control.tasks.complete({ taskId: task_id, ...callerFields(asking) })
    const { task, report } = await whileClosing(control, asking, { taskId: task_id }, notify, complete)
    return { success: report.success, task_id: task.id, report }
  },
})
