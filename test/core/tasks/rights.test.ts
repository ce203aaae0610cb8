import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { realClock } from '../../../src/host/clock.ts'
import { openSqliteStore } from '../../../src/store/sqlite/store.ts'
import { Callers } from '../../../src/tasks/callers.ts'
import type { Caller } from '../../../src/tasks/types.ts'
import { as, openTasks, orchestrator, type TaskBench } from '../../support/tasks.ts'

/** What an agent may do with the token that it was given: its own work, and no more. */

const forbidden = { code: 'forbidden' }

/** A family in one task, and a stranger in another. */
async function family(bench: TaskBench) {
  const [task, elsewhere] = [await bench.create(), await bench.create()]
  const parent = await bench.deploy(task, { agentType: 'parent' })
  const child = await bench.deploy(task, { agentType: 'child', parent: parent.agent.id })
  const grandchild = await bench.deploy(task, { agentType: 'grandchild', parent: child.agent.name ?? '' })
  const sibling = await bench.deploy(task, { agentType: 'sibling' })
  const stranger = await bench.deploy(elsewhere, { agentType: 'stranger' })
  return { task, elsewhere, parent, child, grandchild, sibling, stranger }
}

describe('an agent', () => {
  it('reports for itself only', async () => {
    await using bench = await openTasks()
    const { task, parent, child, stranger } = await family(bench)
    const progress = (agentId: string, caller: Caller) =>
      bench.tasks.progress({ taskId: task.id, agentId, status: 'working', message: '', progress: 0, caller })
    const finding = (agentId: string, caller: Caller) =>
      bench.tasks.finding({ taskId: task.id, agentId, findingType: 'x', severity: 'low', message: '', caller })
    for (const report of [progress, finding]) {
      expect(await report(child.agent.id, as(child))).toMatchObject({ isOwn: true })
      await expect(report(child.agent.id, as(parent))).rejects.toMatchObject(forbidden)
      await expect(report(child.agent.id, as(stranger))).rejects.toMatchObject(forbidden)
    }
  })

  it('deploys children of its own only', async () => {
    await using bench = await openTasks()
    const { task, elsewhere, parent, child, stranger } = await family(bench)
    const more = { agentType: 'new' }
    expect(await bench.deploy(task, { ...more, parent: parent.agent.id, caller: as(parent) })).toMatchObject({ isDeduplicated: false })
    for (const [place, parentName, caller] of [
      [task, 'orchestrator', as(parent)],
      [task, child.agent.id, as(parent)],
      [elsewhere, stranger.agent.id, as(parent)],
      [elsewhere, 'orchestrator', as(parent)],
    ] as const)
      await expect(bench.deploy(place, { ...more, parent: parentName, caller })).rejects.toMatchObject(forbidden)
  })

  it('ends itself and its descendants only', async () => {
    await using bench = await openTasks()
    const { task, parent, child, grandchild, sibling, stranger } = await family(bench)
    const kill = (agentId: string, caller: Caller) => bench.tasks.kill({ taskId: task.id, agentId, caller })
    const clean = (agentId: string, caller: Caller) => bench.tasks.cleanup({ taskId: task.id, agentId, keepLogs: true, caller })
    for (const end of [kill, clean]) {
      await expect(end(parent.agent.id, as(child))).rejects.toMatchObject(forbidden)
      await expect(end(sibling.agent.id, as(child))).rejects.toMatchObject(forbidden)
      await expect(end(child.agent.id, as(stranger))).rejects.toMatchObject(forbidden)
    }
    expect(await kill(grandchild.agent.id, as(parent))).toMatchObject({ success: true })
    expect(await clean(child.agent.id, as(child))).toMatchObject({ success: true })
    expect(bench.control.agents.living.has(parent.agent.id)).toBe(true)
  })

  it('reads its own task only, and neither creates nor completes one', async () => {
    await using bench = await openTasks()
    const { task, elsewhere, child, parent } = await family(bench)
    const caller = as(child)
    expect((await bench.tasks.status({ taskId: task.id, caller })).counts.total).toBe(4)
    expect(await bench.tasks.output({ taskId: task.id, agentId: parent.agent.id, caller })).toEqual({ lines: [], next: 0 })
    expect((await bench.tasks.list({ caller })).map((one) => one.task.id)).toEqual([task.id])
    expect((await bench.tasks.list({ caller: orchestrator })).map((one) => one.task.id)).toEqual([elsewhere.id, task.id])
    await expect(bench.tasks.status({ taskId: elsewhere.id, caller })).rejects.toMatchObject(forbidden)
    await expect(bench.tasks.complete({ taskId: task.id, caller })).rejects.toMatchObject(forbidden)
    const create = bench.tasks.create({ namespace: 'default', description: '', priority: 'P2', base: bench.base, caller })
    await expect(create).rejects.toMatchObject(forbidden)
  })
})

describe('a token', () => {
  it('is known as long as its agent lives, by those who come after a restart too', async () => {
    await using bench = await openTasks()
    bench.tasks.callback = () => ({ url: 'http://127.0.0.1:4400', command: '/opt/ebb/bin/ebb' })
    const task = await bench.create()
    const { agent } = await bench.deploy(task)
    const config = JSON.parse(readFileSync(join(bench.supervisor.home.directory, 'run', `${agent.id}.mcp.json`), 'utf8'))
    const token = config.mcpServers.ebb.env.EBB_TOKEN as string
    expect(await bench.tasks.callerOf(token)).toEqual({ agentId: agent.id })
    expect(await bench.tasks.callerOf(`${token}x`)).toBeUndefined()
    expect(await bench.tasks.callerOf('')).toBeUndefined()
    // Another life knows it by its hash alone.
    const store = await openSqliteStore({ file: bench.supervisor.home.database, clock: realClock })
    await using _ = store.ledger
    const later = new Callers(store.tasks)
    expect(await later.find(token)).toEqual({ agentId: agent.id })
    await bench.control.agents.stop(agent.id, { force: true })
    expect(await bench.tasks.callerOf(token)).toBeUndefined()
    expect(await later.find(token)).toBeUndefined()
  })
})
