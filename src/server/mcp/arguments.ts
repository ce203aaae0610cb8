import { z } from 'zod'
import { EbbError } from '../../core/model/errors.ts'
import { agentTypePattern, priorities } from '../../core/model/task.ts'
import { argument, isShallow } from '../http/schemas.ts'
import { understand } from '../validation.ts'

/** What the tools take. A model reads the descriptions and nothing else: each says what to write, and where to get it. */

const taskId = z.string().min(1).max(200).describe('The task, as create_real_task named it: TASK-YYYYMMDD-HHMMSS-xxxxxxxx.')
const agentId = z.string().min(1).max(200).describe('The agent: the agent_id it was deployed with (TYPE-HHMMSS-xxxxxx), or its UUID.')
const folder = argument.max(4_096).regex(/^\//, 'must be an absolute path')
const agentType = z
  .string()
  .regex(agentTypePattern, 'must be a name of letters, digits, "_" and "-", at most 48, beginning with a letter or digit')
  .describe('A short name for the role, such as "reviewer" or "test_writer"; letters, digits, "_" and "-".')
const prompt = z
  .string()
  .min(1)
  .max(1_048_576)
  .describe('What the agent shall do, complete in itself: it knows nothing of this conversation. How to report back is added for it.')
const message = z.string().min(1).max(10_000)

export const createTask = z.object({
  description: z.string().min(1).max(10_000).describe('What is to be achieved, in a sentence or two; every agent of the task is told.'),
  priority: z.enum(priorities).default('P2').describe('P0 is the most urgent.'),
  workspace_base: folder.optional().describe('The folder in which the workspace is made, absolute; by default client_cwd.'),
  client_cwd: folder
    .optional()
    .describe(
      'The folder you work in, absolute; the agents of the task work there. By default workspace_base, else the folder of the MCP server.',
    ),
})

export const deployAgent = z.object({
  task_id: taskId,
  agent_type: agentType,
  prompt,
  parent: z
    .string()
    .min(1)
    .max(200)
    .default('orchestrator')
    .describe('"orchestrator", or the agent_id of the agent of this task on whose behalf it works.'),
  provider: z
    .string()
    .min(1)
    .max(100)
    .default('claude-code')
    .describe('The program: claude-code, codex, gemini-cli, opencode, or command, which runs any argv.'),
  placement: z
    .string()
    .min(1)
    .max(100)
    .default('tmux')
    .describe('Where it runs: "tmux", a session that a person can attach to, or "process".'),
  allow_duplicate: z
    .boolean()
    .default(false)
    .describe('Without it, the same type, prompt and parent give the agent that runs already, with deduplicated: true.'),
  command: z
    .array(argument)
    .min(1)
    .max(10_000)
    .optional()
    .describe('For the provider "command": program and arguments; the prompt comes on its stdin.'),
  model: argument.min(1).max(200).optional().describe('The model, for providers that have several.'),
})

export const spawnChild = z.object({
  task_id: taskId,
  parent_agent_id: agentId.describe('The agent that spawns: your own agent_id.'),
  child_agent_type: agentType,
  child_prompt: prompt,
  provider: deployAgent.shape.provider,
  placement: deployAgent.shape.placement,
  command: deployAgent.shape.command,
  model: deployAgent.shape.model,
})

export const ofTask = z.object({ task_id: taskId })

export const agentOutput = z.object({
  task_id: taskId,
  agent_id: agentId,
  tail: z.number().int().min(1).max(10_000).optional().describe('Only the last so many lines.'),
  since: z.number().int().min(0).optional().describe('Only what came after this place: "next" of an earlier answer.'),
})

export const killAgent = z.object({
  task_id: taskId,
  agent_id: agentId,
  reason: z.string().max(1_000).default('Manual termination').describe('Why, for the answer and the log.'),
  cascade: z
    .boolean()
    .default(false)
    .describe('Its children, and theirs, are killed too; otherwise they go on until the task is completed.'),
})

export const cleanupAgent = z.object({
  task_id: taskId,
  agent_id: agentId,
  keep_logs: z
    .boolean()
    .default(true)
    .describe('true: the logs are archived. false: they, and what was archived of this agent, are deleted.'),
})

export const reportProgress = z.object({
  task_id: taskId,
  agent_id: agentId.describe('Whose progress it is: your own agent_id.'),
  status: z
    .string()
    .min(1)
    .max(100)
    .describe('Such as "working" or "blocked". "completed", "failed" and "terminated" are the last word: the agent is ended after it.'),
  message: message.describe('What was done, or what is in the way.'),
  progress: z.number().min(0).max(100).default(0).describe('Percent.'),
})

export const reportFinding = z.object({
  task_id: taskId,
  agent_id: agentId.describe('Whose finding it is: your own agent_id.'),
  finding_type: z.string().min(1).max(100).describe('Such as "issue", "solution", "insight" or "recommendation".'),
  severity: z.string().min(1).max(100).describe('Such as "low", "medium", "high" or "critical".'),
  message: message.describe('What was found.'),
  data: z
    .record(z.string(), z.unknown())
    .refine(isShallow, 'must be nested at most 100 deep')
    .optional()
    .describe('Anything else, such as file and line; at most 64 kB as JSON.'),
})

export const nothing = z.object({})

/** The JSON Schema of a tool's arguments, which lets everything pass: what does not fit is ours to answer, as any failure. */
export function advertised(input: z.ZodObject): Pick<z.ZodObject, '~standard'> {
  return { '~standard': { ...input['~standard'], validate: (value) => ({ value: value as Record<string, unknown> }) } }
}

/** What was said as the tool understands it; every place that is wrong is named. */
export function understood(input: z.ZodObject, said: unknown): unknown {
  const answer = understand(input, said)
  if ('value' in answer) return answer.value
  throw new EbbError('invalid_request', `The arguments are not as they should be: ${answer.named}`, { details: answer.problems })
}
