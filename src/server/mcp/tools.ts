import type { ToolAnnotations } from '@modelcontextprotocol/server'
import type { z } from 'zod'
import type { Control } from '../../control.ts'
import { EbbError } from '../../core/model/errors.ts'
import type { DeployAgent } from '../../tasks/types.ts'
import { defaultNamespace } from '../http/launch.ts'
import * as answers from './answers.ts'
import * as args from './arguments.ts'
import { type Asking, whoAsks } from './asking.ts'
import { type Tell, tellPhase, whileClosing } from './progress.ts'
import { deployFailureOf, failureOf } from './result.ts'
import { cleanupShape, completedShape, createdShape, deployedShape, killedShape, statusShape } from './shapes.ts'

/** The MCP tools that docs/in-depth/mcp.md lists. */

export interface ToolCall<A> {
  readonly args: A
  readonly asking: Asking
  readonly control: Control
  readonly home: string
  readonly signal: AbortSignal
  readonly tell: Tell | undefined
}

export interface Tool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly input: z.ZodObject
  readonly output: z.ZodObject
  readonly hints: ToolAnnotations
  readonly run: (call: ToolCall<never>) => Promise<object>
  /** How a failure is told. */
  readonly fails: typeof failureOf | typeof deployFailureOf
}

const tool = <I extends z.ZodObject>(
  definition: Omit<Tool, 'input' | 'run' | 'fails'> & {
    readonly input: I
    readonly run: (call: ToolCall<z.output<I>>) => Promise<object>
    readonly fails?: Tool['fails']
  },
): Tool => ({ fails: failureOf, ...definition })

const looks: ToolAnnotations = { readOnlyHint: true, openWorldHint: false }
const adds: ToolAnnotations = { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false }
const launches: ToolAnnotations = { ...adds, openWorldHint: true }
const ends: ToolAnnotations = { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false }

export const tools: readonly Tool[] = [
  tool({
    name: 'create_real_task',
    title: 'Create a task',
    description:
      'Creates a task and its workspace, into which agents are deployed with deploy_headless_agent. Everything of a task ends, proven, with complete_real_task.',
    input: args.createTask,
    output: answers.created,
    hints: adds,
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
      'Starts an agent in a task and answers as soon as it runs. Read what it says with get_agent_output, how it stands with get_real_task_status. A deployment that fails leaves nothing behind: cleanup_performed says whether that is proven.',
    input: args.deployAgent,
    output: answers.deployed,
    hints: launches,
    fails: deployFailureOf,
    run: (call) => {
      const { agent_type, prompt, parent, allow_duplicate } = call.args
      return deploy(call, { agentType: agent_type, prompt, parent, allowDuplicate: allow_duplicate })
    },
  }),
  tool({
    name: 'spawn_child_agent',
    title: 'Spawn a child agent',
    description: 'For an agent: deploys another one in the same task, as its child. It outlives its parent, and ends with the task.',
    input: args.spawnChild,
    output: answers.deployed,
    hints: launches,
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
      'The task, its agents with their last progress and how they ended, who deployed whom, and how much of each limit is used. An agent with "stuck" has not reported for long.',
    input: args.ofTask,
    output: answers.taskStatus,
    hints: looks,
    run: async ({ args: { task_id }, asking, control }) => statusShape(await control.tasks.status({ taskId: task_id, ...whoAsks(asking) })),
  }),
  tool({
    name: 'get_agent_output',
    title: 'Output of an agent',
    description:
      'What an agent wrote on its standard output, line by line, also after it has ended. Pass "next" of one answer as "since" of the next call to read on.',
    input: args.agentOutput,
    output: answers.output,
    hints: looks,
    run: async ({ args: { task_id, agent_id, tail, since }, asking, control }) => {
      const wanted = { ...(tail !== undefined && { tail }), ...(since !== undefined && { since }) }
      const { lines, next } = await control.tasks.output({ taskId: task_id, agentId: agent_id, ...whoAsks(asking), ...wanted })
      return { success: true, agent_id, output: lines, next }
    },
  }),
  tool({
    name: 'kill_real_agent',
    title: 'Kill an agent',
    description:
      'Ends an agent now, with every process it started, and answers when that is proven. Its logs are archived. Safe to repeat.',
    input: args.killAgent,
    output: answers.killed,
    hints: ends,
    run: async ({ args: { task_id, agent_id, reason, cascade }, asking, control, tell }) => {
      const closing = { taskId: task_id, agentId: agent_id, cascade }
      const kill = () => control.tasks.kill({ ...closing, reason, ...whoAsks(asking) })
      return killedShape(await whileClosing(control, asking, closing, tell, kill), reason, cascade)
    },
  }),
  tool({
    name: 'cleanup_agent_resources',
    title: 'Clean up after an agent',
    description:
      'Ends an agent if it still lives, and proves that nothing of it is left: session, prompt file, logs, processes. Happens by itself when an agent ends; call it for the evidence, or with keep_logs false to delete its logs.',
    input: args.cleanupAgent,
    output: answers.cleaned,
    hints: ends,
    run: async ({ args: { task_id, agent_id, keep_logs }, asking, control, tell }) => {
      const closing = { taskId: task_id, agentId: agent_id }
      const clean = () => control.tasks.cleanup({ ...closing, keepLogs: keep_logs, ...whoAsks(asking) })
      return cleanupShape(await whileClosing(control, asking, closing, tell, clean))
    },
  }),
  tool({
    name: 'update_agent_progress',
    title: 'Report progress',
    description:
      'For an agent: says how its work stands. Report "completed" or "failed" at the end: the agent is then ended when its program exits, or after 30 seconds.',
    input: args.reportProgress,
    output: answers.progressTaken,
    hints: adds,
    run: async ({ args: { task_id, agent_id, status, message, progress }, asking, control }) => {
      const report = { taskId: task_id, agentId: agent_id, status, message, progress }
      const { isOwn, cleanup } = await control.tasks.progress({ ...report, ...whoAsks(asking) })
      return { success: true, own_update: isOwn, ...(cleanup && { cleanup }) }
    },
  }),
  tool({
    name: 'report_agent_finding',
    title: 'Report a finding',
    description: 'For an agent: writes down something it found, for those who read the task.',
    input: args.reportFinding,
    output: answers.findingTaken,
    hints: adds,
    run: async ({ args: { task_id, agent_id, finding_type, severity, message, data }, asking, control }) => {
      const finding = { findingType: finding_type, severity, message, ...(data !== undefined && { data }) }
      const { isOwn } = await control.tasks.finding({ taskId: task_id, agentId: agent_id, ...finding, ...whoAsks(asking) })
      return { success: true, own_finding: isOwn }
    },
  }),
  tool({
    name: 'complete_real_task',
    title: 'Complete a task',
    description:
      'Closes a task: every agent that still runs in it is ended, and the answer proves that nothing of the task is left. Logs stay archived.',
    input: args.ofTask,
    output: answers.completed,
    hints: ends,
    run: async ({ args: { task_id }, asking, control, tell }) => {
      const complete = () => control.tasks.complete({ taskId: task_id, ...whoAsks(asking) })
      return completedShape(await whileClosing(control, asking, { taskId: task_id }, tell, complete))
    },
  }),
  tool({
    name: 'get_cleanup_status',
    title: 'Is the world clean?',
    description:
      'Looks at the world now: agents and processes that run, what is stuck, and leaks, which is what is there though its owner is closed. isClean is true when nothing is there at all.',
    input: args.nothing,
    output: answers.cleanupStatus,
    hints: looks,
    run: async ({ asking: { caller, namespace }, control }) => {
      if (caller !== 'orchestrator')
        throw new EbbError('forbidden', 'An agent sees its own task only; call get_real_task_status with its task_id.')
      return await control.cleanup.status(namespace)
    },
  }),
]

type DeployArguments = Pick<z.output<typeof args.deployAgent>, 'task_id' | 'provider' | 'placement' | 'command' | 'model'>

async function deploy(
  { args: { task_id, provider, placement, command, model }, asking, control, home, signal, tell }: ToolCall<DeployArguments>,
  request: Pick<DeployAgent, 'agentType' | 'prompt' | 'parent' | 'allowDuplicate'>,
): Promise<object> {
  const deployed = await control.tasks.deploy({
    ...request,
    taskId: task_id,
    ...whoAsks(asking),
    provider,
    placement,
    ...(command !== undefined && { command }),
    ...(model !== undefined && { model }),
    signal,
    onPhase: (phase) => tellPhase(tell, phase),
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
