import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { LaunchRequest } from '../../../src/agents/preflight.ts'
import { openTasks, orchestrator, waits } from '../../support/tasks.ts'

/** A launch with a task id, as by `POST /api/agents`, has the same limits as a deployment. */

const request = (more: Partial<LaunchRequest>): LaunchRequest => ({
  type: 'command',
  prompt: 'Do your part.',
  namespace: 'default',
  configuration: { command: waits },
  ...more,
})

it('launch into a task: the agent gets a name, files in the workspace and the working directory of the task', async () => {
  await using bench = await openTasks()
  const task = await bench.create()
  const [{ agent: one }, { agent: two }] = await Promise.all([
    bench.control.launch(request({ taskId: task.id, requestId: 'r' })),
    bench.control.launch(request({ taskId: task.id })),
  ])
  expect(one).toMatchObject({ name: expect.stringMatching(/^command-\d{6}-[0-9a-f]{6}$/), requestId: 'r', taskId: task.id })
  expect(one.session.configuration.workingDirectory).toBe(bench.base)
  expect(two.id).not.toBe(one.id)
  expect(existsSync(join(task.workspace, 'logs', `${one.name}_stream.jsonl`))).toBe(true)
  const { counts } = await bench.tasks.status({ taskId: task.id, caller: orchestrator })
  expect(counts).toMatchObject({ total: 2, active: 2 })
})

it('launch into a task: all task limits apply', async () => {
  await using bench = await openTasks({
    flags: { taskConcurrent: '2', taskDepth: '1', taskAgents: '3', spawnRule: 'orchestrator>command' },
  })
  const task = await bench.create()
  const refused = { code: 'spawn_refused' }
  const launch = async (more: Partial<LaunchRequest> = {}) => (await bench.control.launch(request({ taskId: task.id, ...more }))).agent
  const one = await launch()
  await expect(launch({ parentAgentId: one.id })).rejects.toMatchObject({ ...refused, message: expect.stringContaining('--task-depth') })
  await expect(launch({ type: 'synthetic', configuration: {} })).rejects.toMatchObject({
    ...refused,
    message: expect.stringContaining('--spawn-rule'),
  })
  await launch()
  await expect(launch()).rejects.toMatchObject({ ...refused, message: expect.stringContaining('--task-concurrent') })
  await bench.control.agents.stop(one.id, { force: true })
  const third = await launch()
  await bench.control.agents.stop(third.id, { force: true })
  await expect(launch()).rejects.toMatchObject({ ...refused, message: expect.stringContaining('--task-agents') })
  await expect(launch({ parentAgentId: '6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11' })).rejects.toMatchObject({ code: 'agent_not_found' })
})

it('launch with a task id: an unknown task, or one of another namespace, is only a label', async () => {
  await using bench = await openTasks({ flags: { taskConcurrent: '1' } })
  const task = await bench.create()
  for (const more of [{ taskId: 'mine' }, { taskId: 'mine' }, { taskId: task.id, namespace: 'other' }, {}]) {
    const { agent } = await bench.control.launch(request(more))
    expect(agent).not.toHaveProperty('name')
  }
  expect(bench.control.agents.living.size).toBe(4)
})
