import { z } from 'zod'
import { EbbError } from '../../core/model/errors.ts'
import { validate } from '../validation.ts'

/** Arguments that several tools take. A model knows only their descriptions, so each says what to write and where to get it. */

const id = z.string().min(1).max(200)

export const taskId = id.describe('The task: the task_id that create_real_task returned (TASK-YYYYMMDD-HHMMSS-xxxxxxxx).')
export const agentId = id.describe('The agent: the agent_id that its deployment returned (TYPE-HHMMSS-xxxxxx), or its UUID.')
export const ownAgentId = id.describe('The agent that reports: your own agent_id.')
export const reportText = z.string().min(1).max(10_000)

/** The JSON Schema of a tool's arguments, without validation by the SDK: `parseArguments` answers invalid ones like any failure. */
export function advertised(input: z.ZodObject): Pick<z.ZodObject, '~standard'> {
  return { '~standard': { ...input['~standard'], validate: (value) => ({ value: value as Record<string, unknown> }) } }
}

/** Returns the arguments, or throws an error that names every invalid place. */
export function parseArguments<Arguments extends z.ZodObject>(input: Arguments, given: unknown): z.output<Arguments> {
  const answer = validate(input, given)
  if ('value' in answer) return answer.value as z.output<Arguments>
  throw new EbbError('invalid_request', `The arguments are invalid: ${answer.named}`, { details: answer.problems })
}
