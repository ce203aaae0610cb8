import { z } from 'zod'
import { resultSchema } from '../result.ts'
import { defineTool, onlyOrchestrator, reading } from '../tool.ts'

export const getCleanupStatus = defineTool({
  name: 'get_cleanup_status',
  title: 'Cleanup status',
  description:
    'Observes the system now: running agents and processes, what is stuck, and leaks, which are things that still exist although their owner is closed. isClean is true when there is nothing at all.',
  callers: onlyOrchestrator('An agent sees its own task only; call get_real_task_status with its task_id.'),
  annotations: reading,
  arguments: z.object({}),
  /** The same fields as in the answer over HTTP. Only a failed answer has `success`. */
  result: resultSchema({
    isClean: z.boolean(),
    agentCount: z.number(),
    runningProcesses: z.number(),
    leaks: z.array(z.unknown()),
    stuck: z.array(z.unknown()),
  }).partial({ success: true }),
  run: async ({ asking: { namespace }, control }) => await control.cleanup.status(namespace),
})
