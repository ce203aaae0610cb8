import { z } from 'zod'
import { agentId, taskId } from '../arguments.ts'
import { agentType, deploy, deploymentFailure, deploymentResult, program, prompt } from '../deployment.ts'
import { defineTool, launching } from '../tool.ts'

export const spawnChildAgent = defineTool({
  name: 'spawn_child_agent',
  title: 'Spawn a child agent',
  description:
    'For an agent: deploys another agent in the same task, as its child. The child does not end with its parent, but with the task.',
  callers: 'everybody',
  annotations: launching,
  arguments: z.object({
    task_id: taskId,
    parent_agent_id: agentId.describe('The parent of the new agent: your own agent_id.'),
    child_agent_type: agentType,
    child_prompt: prompt,
    ...program,
  }),
  result: deploymentResult,
  failure: deploymentFailure,
  run: (call) => {
    const { child_agent_type, child_prompt, parent_agent_id } = call.args
    return deploy(call, { agentType: child_agent_type, prompt: child_prompt, parent: parent_agent_id })
  },
})
