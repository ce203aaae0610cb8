import type { ToolAnnotations } from '@modelcontextprotocol/server'
import type { z } from 'zod'
import type { Control } from '../../control.ts'
import { EbbError } from '../../core/model/errors.ts'
import type { DeployAgent } from '../../tasks/types.ts'
import { defaultNamespace } from '../http/launch.ts'
import * as answers from './answers.ts'
import * as args from './arguments.ts'
import { type Asking, callerFields } from './asking.ts'
import { type NotifyProgress, notifyPhase, whileClosing } from './progress.ts'
import { deployFailureOf, failureOf } from './result.ts'
import { cleanupShape, completedShape, createdShape, deployedShape, killedShape, statusShape } from './shapes.ts'

/** The MCP tools that docs/in-depth/mcp.md lists. */

export interface ToolCall<A> {
  readonly args: A
  readonly asking: Asking
  readonly control: Control
  readonly home: string
  readonly signal: AbortSignal
  readonly notify: NotifyProgress | undefined
}

export interface Tool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly input: z.ZodObject
  readonly output: z.ZodObject
  readonly hints: ToolAnnotations
  readonly run: (call: ToolCall<never>) => Promise<object>
  /** Makes the answer of a failed call. */
  readonly fails: typeof failureOf | typeof deployFailureOf
}

const tool = <I extends z.ZodObject>(
  definition: Omit<Tool, 'input' | 'run' | 'fails'> & {
    readonly input: I
    readonly run: (call: ToolCall<z.output<I>>) => Promise<object>
    readonly fails?: Tool['fails']
  },
): Tool => ({ fails: failureOf, ...definition })

const reading: ToolAnnotations = { readOnlyHint: true, openWorldHint: false }
const adding: ToolAnnotations = { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false }
const launching: ToolAnnotations = { ...adding, openWorldHint: true }
const ending: ToolAnnotations = { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false }

export const tools: readonly Tool[] = [
  tool({
    name: 'create_real_task',
    title: 'Create a task',
    description: 'Creates a task and its workspace. Deploy agents into it with deploy_headless_agent, and end it with complete_real_task.',
    input: args.createTask,
    output: answers.created,
    hints: adding,
    run: async ({ args: { description, priority, workspace_base, client_cwd }, asking, control }) => {
      const own = (): string => asking.cwd ?? ownFolder()
      const base = workspace_base ?? client_cwd ?? own()
      const cwd = client_cwd ?? workspace_base ?? own()
      const namespace = asking.namespace ?? defaultNamespace
      return createdShape(await control.tasks.create({ namespace, description, priority, base, cwd, caller: asking.caller }))
    },
  }),
  tool({
    name: 'deploy_headless_agent',
    title: 'Deploy an agent',
    description:
      'Starts an agent in a task and answers as soon as it runs. Read its output with get_agent_output and its status with get_real_task_status. A deployment that fails is rolled back; cleanup_performed says whether it is proven that nothing is left.',
    input: args.deployAgent,
    output: answers.deployed,
    hints: launching,
    fails: deployFailureOf,
    run: (call) => {
      const { agent_type, prompt, parent, allow_duplicate } = call.args
      return deploy(call, { agentType: agent_type, prompt, parent, allowDuplicate: allow_duplicate })
    },
  }),
  tool({
    name: 'spawn_child_agent',
    title: 'Spawn a child agent',
    description:
      'For an agent: deploys another agent in the same task, as its child. The child does not end with its parent, but with the task.',
    input: args.spawnChild,
    output: answers.deployed,
    hints: launching,
    fails: deployFailureOf,
    run: (call) => {
      const { child_agent_type, child_prompt, parent_agent_id } = call.args
      return deploy(call, { agentType: child_agent_type, prompt: child_prompt, parent: parent_agent_id })
    },
  }),
  tool({
    name: 'get_real_task_status',
    title: 'Status of a task',
    description:
      'Shows the task, its agents with their last progress and how they ended, which agent deployed which, and how much of each limit is used. An agent with "stuck" has reported nothing for a long time.',
    input: args.ofTask,
    output: answers.taskStatus,
    hints: reading,
    run: async ({ args: { task_id }, asking, control }) =>
      statusShape(await control.tasks.status({ taskId: task_id, ...callerFields(asking) })),
  }),
  tool({
    name: 'get_agent_output',
    title: 'Output of an agent',
    description:
      'Reads the lines that an agent wrote to its standard output, also after it has ended. To read on, pass "next" of one answer as "since" of the next call.',
    input: args.agentOutput,
    output: answers.output,
    hints: reading,
    run: async ({ args: { task_id, agent_id, tail, since }, asking, control }) => {
      const wanted = { ...(tail !== undefined && { tail }), ...(since !== undefined && { since }) }
      const { lines, next } = await control.tasks.output({ taskId: task_id, agentId: agent_id, ...callerFields(asking), ...wanted })
      return { success: true, agent_id, output: lines, next }
    },
  }),
  tool({
    name: 'kill_real_agent',
    title: 'Kill an agent',
    description:
      'Ends an agent now, with every process it started, and answers when they are proven gone. Its logs are archived. The call can be repeated safely.',
    input: args.killAgent,
    output: answers.killed,
    hints: ending,
    run: async ({ args: { task_id, agent_id, reason, cascade }, asking, control, notify }) => {
      const closing = { taskId: task_id, agentId: agent_id, cascade }
      const kill = () => control.tasks.kill({ ...closing, reason, ...callerFields(asking) })
      return killedShape(await whileClosing(control, asking, closing, notify, kill), reason, cascade)
    },
  }),
  tool({
    name: 'cleanup_agent_resources',
    title: 'Clean up after an agent',
    description:
      'Ends an agent if it still runs, and proves that nothing of it is left: session, prompt file, logs, processes. Ebb also does this by itself when an agent ends; call it for the evidence, or with keep_logs false to delete the logs.',
    input: args.cleanupAgent,
    output: answers.cleaned,
    hints: ending,
    run: async ({ args: { task_id, agent_id, keep_logs }, asking, control, notify }) => {
      const closing = { taskId: task_id, agentId: agent_id }
      const clean = () => control.tasks.cleanup({ ...closing, keepLogs: keep_logs, ...callerFields(asking) })
      return cleanupShape(await whileClosing(control, asking, closing, notify, clean))
    },
  }),
  tool({
    name: 'update_agent_progress',
    title: 'Report progress',
    description:
      'For an agent: reports the progress of its work. Report "completed" or "failed" at the end: the agent is then ended when its program exits, or after 30 seconds.',
    input: args.reportProgress,
    output: answers.progressTaken,
    hints: adding,
    run: async ({ args: { task_id, agent_id, status, message, progress }, asking, control }) => {
      const report = { taskId: task_id, agentId: agent_id, status, message, progress }
      const { isOwn, cleanup } = await control.tasks.progress({ ...report, ...callerFields(asking) })
      return { success: true, own_update: isOwn, ...(cleanup && { cleanup }) }
    },
  }),
  tool({
    name: 'report_agent_finding',
    title: 'Report a finding',
    description: 'For an agent: records a finding for the readers of the task.',
    input: args.reportFinding,
    output: answers.findingTaken,
    hints: adding,
    run: async ({ args: { task_id, agent_id, finding_type, severity, message, data }, asking, control }) => {
      const finding = { findingType: finding_type, severity, message, ...(data !== undefined && { data }) }
      const { isOwn } = await control.tasks.finding({ taskId: task_id, agentId: agent_id, ...finding, ...callerFields(asking) })
      return { success: true, own_finding: isOwn }
    },
  }),
  tool({
    name: 'complete_real_task',
    title: 'Complete a task',
    description:
      'Closes a task: ends every agent that still runs in it, and proves that nothing of the task is left. Its logs stay archived.',
    input: args.ofTask,
    output: answers.completed,
    hints: ending,
    run: async ({ args: { task_id }, asking, control, notify }) => {
      const complete = () => control.tasks.complete({ taskId: task_id, ...callerFields(asking) })
      return completedShape(await whileClosing(control, asking, { taskId: task_id }, notify, complete))
    },
  }),
  tool({
    name: 'get_cleanup_status',
    title: 'Cleanup status',
    description:
      'Observes the system now: running agents and processes, what is stuck, and leaks, which are things that still exist although their owner is closed. isClean is true when there is nothing at all.',
    input: args.nothing,
    output: answers.cleanupStatus,
    hints: reading,
    run: async ({ asking: { caller, namespace }, control }) => {
      if (caller !== 'orchestrator')
        throw new EbbError('forbidden', 'An agent sees its own task only; call get_real_task_status with its task_id.')
      return await control.cleanup.status(namespace)
    },
  }),
]

type DeployArguments = Pick<z.output<typeof args.deployAgent>, 'task_id' | 'provider' | 'placement' | 'command' | 'model'>

async function deploy(
  { args: { task_id, provider, placement, command, model }, asking, control, home, signal, notify }: ToolCall<DeployArguments>,
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
  return deployedShape(deployed, home)
}

function ownFolder(): string {
  try {
    return process.cwd()
  } catch (cause) {
    throw new EbbError('invalid_request', 'The folder that Ebb was started in does not exist any more; give a workspace_base.', { cause })
  }
}
