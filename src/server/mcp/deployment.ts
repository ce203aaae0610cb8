import { z } from 'zod'
import type { ErrorCode } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import { agentTypePattern } from '../../core/model/task.ts'
import type { Log } from '../../core/ports/log.ts'
import type { DeployAgent, Deployed } from '../../tasks/types.ts'
import { argument } from '../http/schemas.ts'
import { callerFields } from './asking.ts'
import { notifyPhase } from './progress.ts'
import { failureOf, resultSchema } from './result.ts'
import type { ToolCall } from './tool.ts'

/** The deployment of an agent: what deploy_headless_agent and spawn_child_agent share. */

export const agentType = z
  .string()
  .regex(agentTypePattern, 'must be a name of letters, digits, "_" and "-", at most 48, beginning with a letter or digit')
  .describe('A short name for the role, such as "reviewer" or "test_writer"; letters, digits, "_" and "-".')

export const prompt = z
  .string()
  .min(1)
  .max(1_048_576)
  .describe('The complete instructions for the agent; it knows nothing of this conversation. Ebb adds how to report back.')

/** The arguments that name the program of an agent and its placement. */
export const program = {
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
  command: z
    .array(argument)
    .min(1)
    .max(10_000)
    .optional()
    .describe('For the provider "command": the program and its arguments; the prompt is its standard input.'),
  model: argument.min(1).max(200).optional().describe('The model, for providers with several models.'),
}

export const deploymentResult = resultSchema({
  agent_id: z.string(),
  tmux_session: z.string().nullable(),
  tmux_socket: z.string().nullable(),
  status: z.string(),
  workspace: z.string(),
  deduplicated: z.boolean().optional(),
})

interface DeploymentArguments {
  readonly task_id: string
  readonly provider: string
  readonly placement: string
  readonly command?: readonly string[] | undefined
  readonly model?: string | undefined
}

export async function deploy(
  { args: { task_id, provider, placement, command, model }, asking, control, signal, notify }: ToolCall<DeploymentArguments>,
  request: Pick<DeployAgent, 'agentType' | 'prompt' | 'parent' | 'allowDuplicate'>,
): Promise<object> {
  const deployed = await control.tasks.deploy({
    ...request,
    taskId: task_id,
    ...callerFields(asking),
    provider,
    placement,
    ...(command !== undefined && { command }),
    ...(model !== undefined && { model }),
    signal,
    onPhase: (phase) => notifyPhase(notify, phase),
  })
  return deployedAnswer(deployed)
}

function deployedAnswer({ agent, isDeduplicated, workspace, terminal }: Deployed): object {
  return {
    success: true,
    agent_id: agent.name ?? agent.id,
    agent_uuid: agent.id,
    tmux_session: terminal?.session ?? null,
    tmux_socket: terminal?.socket ?? null,
    status: agent.status,
    workspace,
    provider: agent.type,
    placement: agent.placement,
    ...(isDeduplicated && { deduplicated: true }),
  }
}

/** Error codes after which it is unknown how far a deployment came. */
const unclear: readonly string[] = [
  'internal',
  'ledger_busy',
  'ledger_unavailable',
  'ledger_read_only',
  'ledger_corrupt',
] satisfies ErrorCode[]

/**
 * The answer of a failed deployment. `cleanup_performed` is true when the deployment was refused before anything was made, or its
 * rollback is proven.
 */
export function deploymentFailure(error: unknown, tool: string, log: Log): object {
  const failure = failureOf(error, tool, log)
  const report = failure.report as Report | undefined
  return { ...failure, cleanup_performed: report?.success ?? !unclear.includes(String(failure.code)) }
}
