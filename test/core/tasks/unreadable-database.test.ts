import { StatementSync } from 'node:sqlite'
import { afterEach, expect, it, vi } from 'vitest'
import { as, openTasks, orchestrator } from '../../support/tasks.ts'

/** G12 for agents of tasks: they are killed when the database can be neither read nor written. */

afterEach(() => void vi.restoreAllMocks())

function breakDatabase(): void {
  for (const method of ['all', 'get', 'run'] as const)
    vi.spyOn(StatementSync.prototype, method).mockImplementation(() => {
      throw Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode: 10 })
    })
}

it('unreadable database: kill by name with cascade and cleanup end all processes, and the answers report the database error', async () => {
  await using bench = await openTasks()
  const task = await bench.create()
  const parent = await bench.deploy(task, { prompt: 'parent' })
  const child = await bench.deploy(task, { prompt: 'child', parent: parent.agent.id })
  const other = await bench.deploy(task, { prompt: 'other' })
  const taskId = task.id
  breakDatabase()
  await expect(bench.tasks.kill({ taskId, agentId: other.agent.id, caller: as(child) })).rejects.toMatchObject({ code: 'forbidden' })
  const [killed, cleaned] = await Promise.all([
    bench.tasks.kill({ taskId, agentId: parent.agent.name ?? '', cascade: true, caller: orchestrator }),
    bench.tasks.cleanup({ taskId, agentId: other.agent.id, keepLogs: false, namespace: 'default', caller: orchestrator }),
  ])
  expect(killed).toMatchObject({ success: false, agent: { id: parent.agent.id, name: parent.agent.name } })
  expect(killed.descendants.map(({ agent }) => agent.id)).toEqual([child.agent.id])
  for (const { report, errors } of [killed.cleanup, killed.descendants[0]?.cleanup ?? cleaned, cleaned]) {
    const tree = report.resources.find(({ kind }) => kind === 'process-tree')
    expect(tree).toMatchObject({ outcome: 'released', proof: { strength: 'kernel' } })
    expect(errors.join(' ')).toMatch(/disk I\/O error/)
  }
  expect(await bench.supervisor.runningProcesses()).toEqual([])

  // With the database back, the ledger is brought up to date.
  vi.restoreAllMocks()
  for (const agentId of [parent, child, other].map(({ agent }) => agent.id))
    expect(await bench.tasks.kill({ taskId, agentId, caller: orchestrator })).toMatchObject({ success: true, cleanup: { errors: [] } })
})
