import { z } from 'zod'
import type { Named } from '../../../tasks/types.ts'
import { agentId, taskId } from '../arguments.ts'
import { callerFields } from '../asking.ts'
import { cleanedAgent, cleanedAgentFields } from '../cleaned-agent.ts'
import { whileClosing } from '../progress.ts'
import { resultSchema } from '../result.ts'
import { defineTool, ending } from '../tool.ts'

export const killRealAgent = defineTool({
  name: 'kill_real_agent',
  title: 'Kill an agent',
  description:
    'Ends an agent now, with every process it started, and answers when they are proven gone. Its logs are archived. The call can be repeated safely.',
  callers: 'everybody',
  annotations: ending,
  arguments: z.object({
    task_id: taskId,
    agent_id: agentId,
    reason: z.string().max(1_000).default('Manual termination').describe('Why the agent is killed, for the answer and the log.'),
    cascade: z
      .boolean()
      .default(false)
      .describe('true: all its descendants are killed too. false: they run on until the task is completed.'),
  }),
  result: resultSchema({
    agent_id: z.string(),
    reason: z.string(),
    cleanup: z.looseObject({ success: z.boolean(), ...cleanedAgentFields }),
  }),
  run: async ({ args: { task_id, agent_id, reason, cascade }, asking, control, notify }) => {
    const closing = { taskId: task_id, agentId: agent_id, cascade }
    const kill = () => control.tasks.kill({ ...closing, reason, ...callerFields(asking) })
    const { agent, success, cleanup, descendants } = await whileClosing(control, asking, closing, notify, kill)
    const alsoKilled = descendants.map((killed) => ({ agent_id: nameOf(killed.agent), cleanup: cleanedAgent(killed.cleanup) }))
    return {
      success,
      agent_id: nameOf(agent),
      agent_uuid: agent.id,
      reason,
      cleanup: cleanedAgent(cleanup),
      ...(cascade && { descendants: alsoKilled }),
    }
  },
})

const nameOf = ({ id, name }: Named): string => name ?? id
