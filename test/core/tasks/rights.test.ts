import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { realClock } from '../../../src/host/clock.ts'
import { openSqliteStore } from '../../../src/store/sqlite/store.ts'
import { Callers } from '../../../src/tasks/callers.ts'
import type { Caller } from '../../../src/tasks/types.ts'
import { as, listens, openTasks, orchestrator, type TaskBench } from '../../support/tasks.ts'

/** The rights of an agent's token: the agent's own work and nothing else. */

const forbidden = { code: 'forbidden' }

/** Four related agents in one task, and one agent in another task. */
async function family(bench: TaskBench) {
  const [task, otherTask] = [await bench.create(), await bench.create()]
  const parent = await bench.deploy(task, { agentType: 'parent' })
  const child = await bench.deploy(task, { agentType: 'child', parent: parent.agent.id })
  const grandchild = await bench.deploy(task, { agentType: 'grandchild', parent: child.agent.name ?? '' })
  const sibling = await bench.deploy(task, { agentType: 'sibling' })
  const outsider = await bench.deploy(otherTask, { agentType: 'outsider' })
  return { task, otherTask, parent, child, grandchild, sibling, outsider }
}

describe('rights of an agent', () => {
  it('an agent may report only for itself', async () => {
    await using bench = await openTasks()
    const { task, parent, child, outsider } = await family(bench)
    const progress = (agentId: string, caller: Caller) =>
      bench.tasks.progress({ taskId: task.id, agentId, status: 'working', message: '', progress: 0, caller })
    const finding = (agentId: string, caller: Caller) =>
      bench.tasks.finding({ taskId: task.id, agentId, findingType: 'x', severity: 'low', message: '', caller })
    for (const report of [progress, finding]) {
      expect(await report(child.agent.id, as(child))).toMatchObject({ isOwn: true })
      await expect(report(child.agent.id, as(parent))).rejects.toMatchObject(forbidden)
      await expect(report(child.agent.id, as(outsider))).rejects.toMatchObject(forbidden)
    }
  })

  it('an agent may deploy only its own children', async () => {
    await using bench = await openTasks()
    const { task, otherTask, parent, child, outsider } = await family(bench)
    const more = { agentType: 'new' }
    expect(await bench.deploy(task, { ...more, parent: parent.agent.id, caller: as(parent) })).toMatchObject({ isDeduplicated: false })
    for (const [place, parentName, caller] of [
      [task, 'orchestrator', as(parent)],
      [task, child.agent.id, as(parent)],
      [otherTask, outsider.agent.id, as(parent)],
      [otherTask, 'orchestrator', as(parent)],
    ] as const)
      await expect(bench.deploy(place, { ...more, parent: parentName, caller })).rejects.toMatchObject(forbidden)
  })

  it('an agent may end only itself and its descendants', async () => {
    await using bench = await openTasks()
    const { task, parent, child, grandchild, sibling, outsider } = await family(bench)
    const kill = (agentId: string, caller: Caller) => bench.tasks.kill({ taskId: task.id, agentId, caller })
    const clean = (agentId: string, caller: Caller) => bench.tasks.cleanup({ taskId: task.id, agentId, keepLogs: true, caller })
    for (const end of [kill, clean]) {
      await expect(end(parent.agent.id, as(child))).rejects.toMatchObject(forbidden)
      await expect(end(sibling.agent.id, as(child))).rejects.toMatchObject(forbidden)
      await expect(end(child.agent.id, as(outsider))).rejects.toMatchObject(forbidden)
    }
    expect(await kill(grandchild.agent.id, as(parent))).toMatchObject({ success: true })
    expect(await clean(child.agent.id, as(child))).toMatchObject({ success: true })
    expect(bench.control.agents.living.has(parent.agent.id)).toBe(true)
  })

  it('an agent may read only its own task, and may not create or complete tasks', async () => {
    await using bench = await openTasks()
    const { task, otherTask, child, parent } = await family(bench)
    const caller = as(child)
    expect((await bench.tasks.status({ taskId: task.id, caller })).counts.total).toBe(4)
    expect(await bench.tasks.output({ taskId: task.id, agentId: parent.agent.id, caller })).toEqual({ lines: [], next: 0 })
    expect((await bench.tasks.list({ caller })).map((one) => one.task.id)).toEqual([task.id])
    expect((await bench.tasks.list({ caller: orchestrator })).map((one) => one.task.id)).toEqual([otherTask.id, task.id])
    await expect(bench.tasks.status({ taskId: otherTask.id, caller })).rejects.toMatchObject(forbidden)
    await expect(bench.tasks.complete({ taskId: task.id, caller })).rejects.toMatchObject(forbidden)
    const create = bench.tasks.create({ namespace: 'default', description: '', priority: 'P2', base: bench.base, caller })
    await expect(create).rejects.toMatchObject(forbidden)
  })
})

describe('token of an agent', () => {
  it('identifies the agent until it ends, also after a restart', async () => {
    await using bench = await openTasks({ callback: listens })
    const task = await bench.create()
    const { agent } = await bench.deploy(task)
    const config = JSON.parse(readFileSync(join(bench.supervisor.home.directory, 'run', `${agent.id}.mcp.json`), 'utf8'))
    const token = config.mcpServers.ebb.env.EBB_TOKEN as string
    expect(await bench.tasks.callerOf(token)).toEqual({ agentId: agent.id })
    expect(await bench.tasks.callerOf(`${token}x`)).toBeUndefined()
    expect(await bench.tasks.callerOf('')).toBeUndefined()
    // A process that is started later finds the agent of a token only by the hash in the row.
    const store = await openSqliteStore({ file: bench.supervisor.home.database, clock: realClock })
    await using _ = store.ledger
    const restarted = new Callers(store.tasks)
    expect(await restarted.find(token)).toEqual({ agentId: agent.id })
    await bench.control.agents.stop(agent.id, { force: true })
    expect(await bench.tasks.callerOf(token)).toBeUndefined()
    expect(await restarted.find(token)).toBeUndefined()
  })
})
