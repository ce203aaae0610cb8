import { z } from 'zod'
import { EbbError } from '../../core/model/errors.ts'
import { agentTypePattern, priorities } from '../../core/model/task.ts'
import { argument, isShallow } from '../http/schemas.ts'
import { validate } from '../validation.ts'

/** Arguments of the tools. A model knows only their descriptions, so each says what to write and where to get it. */

const taskId = z.string().min(1).max(200).describe('The task: the task_id that create_real_task returned (TASK-YYYYMMDD-HHMMSS-xxxxxxxx).')
const agentId = z
  .string()
  .min(1)
  .max(200)
  .describe('The agent: the agent_id that its deployment returned (TYPE-HHMMSS-xxxxxx), or its UUID.')
const folder = argument.max(4_096).regex(/^\//, 'must be an absolute path')
const agentType = z
  .string()
  .regex(agentTypePattern, 'must be a name of letters, digits, "_" and "-", at most 48, beginning with a letter or digit')
  .describe('A short name for the role, such as "reviewer" or "test_writer"; letters, digits, "_" and "-".')
const prompt = z
  .string()
  .min(1)
  .max(1_048_576)
  .describe('The complete instructions for the agent; it knows nothing of this conversation. Ebb adds how to report back.')
const message = z.string().min(1).max(10_000)

export const createTask = z.object({
  description: z.string().min(1).max(10_000).describe('The goal of the task, in one or two sentences; every agent of the task gets it.'),
  priority: z.enum(priorities).default('P2').describe('P0 is the most urgent.'),
  workspace_base: folder.optional().describe('The absolute path of the folder in which the workspace is made; by default client_cwd.'),
  client_cwd: folder
    .optional()
    .describe(
      'The absolute path of the folder that you work in; the agents of the task work there too. By default workspace_base, else the folder of the MCP server.',
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
    .describe('The parent of the new agent: "orchestrator", or the agent_id of an agent of this task.'),
  provider: z
    .string()
    .min(1)
    .max(100)
    .default('claude-code')
    .describe('The program to run: claude-code, codex, gemini-cli, opencode, or command, which runs any argv.'),
  placement: z
    .string()
    .min(1)
    .max(100)
    .default('tmux')
    .describe('Where the agent runs: "tmux", in a session that a person can attach to, or "process".'),
  allow_duplicate: z
    .boolean()
    .default(false)
    .describe(
      'false: a running agent with the same type, prompt and parent is returned instead of a new one, with deduplicated: true. true: a new agent is always started.',
    ),
  command: z
    .array(argument)
    .min(1)
    .max(10_000)
    .optional()
    .describe('For the provider "command": the program and its arguments; the prompt is its standard input.'),
  model: argument.min(1).max(200).optional().describe('The model, for providers with several models.'),
})

export const spawnChild = z.object({
  task_id: taskId,
  parent_agent_id: agentId.describe('The parent of the new agent: your own agent_id.'),
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
  tail: z.number().int().min(1).max(10_000).optional().describe('Only the last lines, at most this many.'),
  since: z.number().int().min(0).optional().describe('Only lines after this position: "next" of an earlier answer.'),
})

export const killAgent = z.object({
  task_id: taskId,
  agent_id: agentId,
  reason: z.string().max(1_000).default('Manual termination').describe('Why the agent is killed, for the answer and the log.'),
  cascade: z.boolean().default(false).describe('true: all its descendants are killed too. false: they run on until the task is completed.'),
})

export const cleanupAgent = z.object({
  task_id: taskId,
  agent_id: agentId,
  keep_logs: z.boolean().default(true).describe('true: the logs are archived. false: the logs and the archives of this agent are deleted.'),
})

export const reportProgress = z.object({
  task_id: taskId,
  agent_id: agentId.describe('The agent that reports: your own agent_id.'),
  status: z
    .string()
    .min(1)
    .max(100)
    .describe('Such as "working" or "blocked". "completed", "failed" and "terminated" are final: the agent is ended after them.'),
  message: message.describe('What was done, or what blocks the work.'),
  progress: z.number().min(0).max(100).default(0).describe('The progress in percent.'),
})

export const reportFinding = z.object({
  task_id: taskId,
  agent_id: agentId.describe('The agent that reports: your own agent_id.'),
  finding_type: z.string().min(1).max(100).describe('Such as "issue", "solution", "insight" or "recommendation".'),
  severity: z.string().min(1).max(100).describe('Such as "low", "medium", "high" or "critical".'),
  message: message.describe('What was found.'),
  data: z
    .record(z.string(), z.unknown())
    .refine(isShallow, 'must be nested at most 100 deep')
    .optional()
    .describe('Further data, such as file and line; at most 64 kB as JSON.'),
})

export const nothing = z.object({})

/** The JSON Schema of a tool's arguments, without validation by the SDK: `parseArguments` answers invalid ones like any failure. */
export function advertised(input: z.ZodObject): Pick<z.ZodObject, '~standard'> {
  return { '~standard': { ...input['~standard'], validate: (value) => ({ value: value as Record<string, unknown> }) } }
}

/** Returns the arguments, or throws an error that names every invalid place. */
export function parseArguments(input: z.ZodObject, given: unknown): unknown {
  const answer = validate(input, given)
  if ('value' in answer) return answer.value
  throw new EbbError('invalid_request', `The arguments are invalid: ${answer.named}`, { details: answer.problems })
}
