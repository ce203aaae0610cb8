import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Deployed } from '../../../src/tasks/types.ts'
import { as, openTasks } from '../../support/tasks.ts'

/** The limits that stop agents from deploying agents without end. */

const refused = (...texts: readonly string[]): unknown => ({
  code: 'spawn_refused',
  message: expect.stringMatching(new RegExp(texts.map((text) => `(?=.*${text})`).join(''))),
})

const settled = async (all: readonly Promise<Deployed>[]) => {
  const ends = await Promise.allSettled(all)
  return {
    deployed: ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : [])),
    refusals: ends.flatMap((end) => (end.status === 'rejected' ? [end.reason as unknown] : [])),
  }
}

describe('task limits', () => {
  it('taskConcurrent 5: exactly 5 of 20 concurrent deployments succeed, and the others leave nothing', async () => {
    await using bench = await openTasks({ flags: { taskConcurrent: '5' } })
    const task = await bench.create()
    const all = Array.from({ length: 20 }, (_, number) => bench.deploy(task, { prompt: `Part ${number}` }))
    const { deployed, refusals } = await settled(all)
    expect(deployed).toHaveLength(5)
    expect(refusals).toHaveLength(15)
    for (const refusal of refusals) expect(refusal).toMatchObject(refused('taskConcurrent: 5', 'kill one') as object)
    const { agents, limits } = await bench.tasks.status({ taskId: task.id, caller: 'orchestrator' })
    expect(agents).toHaveLength(5)
    expect(limits.taskConcurrent).toEqual({ limit: 5, used: 5 })
    expect(limits.taskAgents).toEqual({ limit: 500, used: 5 })
    expect(bench.files().filter((file) => file.includes('agent_prompt_'))).toHaveLength(5)

    const [first] = deployed as [Deployed]
    await bench.tasks.kill({ taskId: task.id, agentId: first.agent.id, caller: 'orchestrator' })
    await bench.deploy(task, { prompt: 'There is room again.' })
  })

  it('a deployment that fails does not count', async () => {
    await using bench = await openTasks({ flags: { taskConcurrent: '1', taskAgents: '1' } })
    const task = await bench.create()
    await expect(bench.deploy(task, { command: ['no-such-program'] })).rejects.toMatchObject({ code: 'launch_refused' })
    const before = bench.files()
    await bench.deploy(task)
    expect(before).toEqual(['.agent-workspace', `.agent-workspace/${task.id}`])
  })

  it('taskAgents counts all agents ever deployed, including deleted ones', async () => {
    await using bench = await openTasks({ flags: { taskAgents: '2' } })
    const task = await bench.create()
    for (const prompt of ['one', 'two']) {
      const { agent } = await bench.deploy(task, { prompt })
      await bench.control.agents.remove(agent.id, { force: true })
    }
    await expect(bench.deploy(task, { prompt: 'three' })).rejects.toMatchObject(refused('taskAgents: 2', 'another task') as object)
    // The agents of another task are counted separately.
    await bench.deploy(await bench.create(), { prompt: 'three' })
  })

  it('taskDepth counts generations from the orchestrator', async () => {
    await using bench = await openTasks({ flags: { taskDepth: '2' } })
    const task = await bench.create()
    const parent = await bench.deploy(task)
    const child = await bench.deploy(task, { parent: parent.agent.name ?? '', caller: as(parent) })
    const grandchild = bench.deploy(task, { parent: child.agent.id, caller: as(child) })
    await expect(grandchild).rejects.toMatchObject(refused('generation 3', 'taskDepth', 'allows 2') as object)
    const { hierarchy, limits } = await bench.tasks.status({ taskId: task.id, caller: 'orchestrator' })
    expect(hierarchy).toMatchObject([{ name: parent.agent.name, children: [{ name: child.agent.name, children: [] }] }])
    expect(limits.taskDepth).toEqual({ limit: 2, used: 2 })
  })

  it('maxAgents applies to deployments too', async () => {
    await using bench = await openTasks({ flags: { maxAgents: '1' } })
    const task = await bench.create()
    await bench.deploy(task)
    await expect(bench.deploy(task, { prompt: 'another' })).rejects.toMatchObject({ code: 'too_many_agents' })
  })

  it('spawn rules limit which types may deploy which, and how many at once', async () => {
    await using bench = await openTasks({ flags: { spawnRule: 'orchestrator>lead*,lead*>tester:2' } })
    const task = await bench.create()
    await expect(bench.deploy(task, { agentType: 'tester' })).rejects.toMatchObject(
      refused('orchestrator>lead', 'orchestrator deploy an agent of type tester') as object,
    )
    const lead = await bench.deploy(task, { agentType: 'lead-a' })
    const spawn = (prompt: string): Promise<Deployed> =>
      bench.deploy(task, { agentType: 'tester', prompt, parent: lead.agent.id, caller: as(lead) })
    const { deployed, refusals } = await settled(['one', 'two', 'three', 'four'].map(spawn))
    expect(deployed).toHaveLength(2)
    expect(refusals).toMatchObject([refused('tester:2'), refused('tester:2')])
    const [tester] = deployed as [Deployed]
    const below = bench.deploy(task, { agentType: 'tester', parent: tester.agent.id, caller: as(tester) })
    await expect(below).rejects.toMatchObject(refused('lets tester deploy') as object)
  })
})

describe('deployment refused before anything exists', () => {
  it.each([
    ['an agent type that could be a path', { agentType: '../x' }, 'invalid_request'],
    ['the reserved agent type orchestrator', { agentType: 'orchestrator' }, 'invalid_request'],
    ['an unknown parent', { parent: 'builder-000000-abcdef' }, 'agent_not_found'],
    ['an unknown provider', { provider: 'no-such' }, 'invalid_request'],
    ['an unknown placement', { placement: 'moon' }, 'invalid_request'],
    ['a missing command', { command: undefined as never }, 'launch_refused'],
    ['an unknown task', { taskId: 'TASK-20260101-000000-00000000' }, 'task_not_found'],
    ['another namespace', { namespace: 'other' }, 'task_not_found'],
  ] as const)('%s', async (_, more, code) => {
    await using bench = await openTasks()
    const task = await bench.create()
    const { command, ...rest } = { command: undefined, ...more }
    const given = 'command' in more ? { ...rest, command: command as never } : rest
    await expect(bench.deploy(task, given)).rejects.toMatchObject({ code })
    expect(bench.files()).toEqual(['.agent-workspace', `.agent-workspace/${task.id}`])
    expect((await bench.tasks.status({ taskId: task.id, caller: 'orchestrator' })).agents).toEqual([])
  })

  it('a parent in another task', async () => {
    await using bench = await openTasks()
    const [one, other] = [await bench.create(), await bench.create()]
    const { agent } = await bench.deploy(one)
    await expect(bench.deploy(other, { parent: agent.id })).rejects.toMatchObject({ code: 'agent_not_found' })
  })
})

describe('folder of a task', () => {
  it.each([
    ['a relative path', 'here/and/there', /must be absolute/],
    ['a missing folder', '/nowhere/at/all', /does not exist/],
    ['a file', import.meta.filename, /not a folder/],
  ])('refuses %s', async (_, base, message) => {
    await using bench = await openTasks()
    await expect(bench.create({ base })).rejects.toMatchObject({ code: 'path_refused', message: expect.stringMatching(message) })
    expect(await bench.tasks.list({ caller: 'orchestrator' })).toEqual([])
    expect(existsSync(join(base, '.agent-workspace'))).toBe(false)
  })
})
