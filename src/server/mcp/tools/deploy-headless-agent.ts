import { z } from 'zod'
import { taskId } from '../arguments.ts'
import { agentType, deploy, deploymentFailure, deploymentResult, program, prompt } from '../deployment.ts'
import { defineTool, launching } from '../tool.ts'

export const deployHeadlessAgent = defineTool({
  name: 'deploy_headless_agent',
  title: 'Deploy an agent',
  description:
    'Starts an agent in a task and answers as soon as it runs. Read its output with get_agent_output and its status with get_real_task_status. A deployment that fails is rolled back; cleanup_performed says whether it is proven that nothing is left.',
  callers: 'everybody',
  annotations: launching,
  arguments: z.object({
    task_id: taskId,
    agent_type: agentType,
    prompt,
    parent: z
      .string()
      .min(1)
      .max(200)
      .default('orchestrator')
      .describe('The parent of the new agent: "orchestrator", or the agent_id of an agent of this task.'),
    provider: program.provider,
    placement: program.placement,
    allow_duplicate: z
      .boolean()
      .default(false)
      .describe(
        'false: a running agent with the same type, prompt and parent is returned instead of a new one, with deduplicated: true. true: a new agent is always started.',
      ),
    command: program.command,
    model: program.model,
  }),
  result: deploymentResult,
  failure: deploymentFailure,
  run: (call) => {
    const { agent_type, prompt, parent, allow_duplicate } = call.args
    return deploy(call, { agentType: agent_type, prompt, parent, allowDuplicate: allow_duplicate })
  },
})
