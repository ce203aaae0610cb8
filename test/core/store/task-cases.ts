import { expect, it } from 'vitest'
import type { Inode } from '../../../src/core/model/identity.ts'
import type { Task } from '../../../src/core/model/task.ts'
import { create, createInScope, end, openOwner } from './agent-records.ts'
import type { AgentsUnderTest } from './connections.ts'
import { openAgent, settlement } from './records.ts'

const at = '2026-11-15T09:00:00.000Z'

const mark = (inode: string): Inode => ({ device: '1', inode, bornNs: '1' })

const newTask = (id: string, more: Partial<Task> = {}): Task => ({
  id,
  namespace: 'n',
  description: 'Mend the "fence", bitte',
  priority: 'P1',
  base: '/base',
  workspace: `/base/.agent-workspace/${id}`,
  cwd: '/somewhere else',
  createdAt: at,
  ...more,
})

/** Creates a task with its owner record and scope. */
async function open({ tasks, agents, ledger }: AgentsUnderTest, id: string, more: Partial<Task> = {}): Promise<Task> {
  const task = newTask(id, more)
  await openAgent(ledger, `task-${id}`)
  await openOwner({ ledger, agents }, { kind: 'task', namespace: task.namespace, id, scopeId: `task-${id}`, createdAt: at })
  await tasks.create(task)
  return task
}

export function taskCases(store: AgentsUnderTest): void {
  it('find: returns the task as written, also on another connection', async () => {
    const task = await open(store, 't')
    expect(await store.tasks.find('t')).toEqual({ ...task, deployed: 0 })
    expect(await (await store.reopen()).tasks.find('t')).toEqual({ ...task, deployed: 0 })
    expect(await store.tasks.find('none')).toBeUndefined()
    await expect(store.tasks.create(task)).rejects.toThrow()
  })

  it('list: newest first, of a namespace or of all', async () => {
    for (const id of ['a', 'b', 'c']) await open(store, id, { namespace: id === 'b' ? 'm' : 'n' })
    const ids = async (filter: { namespace?: string; limit: number }) => (await store.tasks.list(filter)).map(({ id }) => id)
    expect(await ids({ limit: 10 })).toEqual(['c', 'b', 'a'])
    expect(await ids({ limit: 2 })).toEqual(['c', 'b'])
    expect(await ids({ namespace: 'n', limit: 10 })).toEqual(['c', 'a'])
  })

  it('complete and countDeployed: the first completion is kept, and every deployment is counted', async () => {
    await open(store, 't')
    await Promise.all([store.tasks.countDeployed('t'), store.tasks.countDeployed('t')])
    await store.tasks.complete('t', '2026-11-15T10:00:00.000Z')
    await store.tasks.complete('t', '2026-11-15T11:00:00.000Z')
    expect(await store.tasks.find('t')).toMatchObject({ deployed: 2, completedAt: '2026-11-15T10:00:00.000Z' })
  })

  it('heard: returns the progress and findings of the agents of a task', async () => {
    await create(store, 'a', { taskId: 't', tokenHash: 'hash' })
    await create(store, 'b', { taskId: 't' })
    await create(store, 'elsewhere', { taskId: 'u' })
    const progress = { status: 'working', message: 'm', progress: 12.5, at }
    await store.tasks.keepProgress('a', { ...progress, progress: 1 })
    await store.tasks.keepProgress('a', progress)
    await store.tasks.countFinding('a')
    await store.tasks.countFinding('a')
    expect(await store.tasks.heard('t')).toEqual(
      new Map([
        ['a', { progress, findings: 2, canReport: true }],
        ['b', { findings: 0, canReport: false }],
      ]),
    )
  })

  it('count: counts agents that have not ended', async () => {
    for (const id of ['a', 'b']) await createInScope(store, id, { taskId: 't' })
    await create(store, 'c', { taskId: 'u' })
    await store.ledger.settle(settlement({ agents: { ended: [end('a')], stuckIds: ['b'] } }))
    expect(await store.tasks.count(['t', 'u', 'none'])).toEqual(
      new Map([
        ['t', 1],
        ['u', 1],
      ]),
    )
  })

  it('tokenHolder: finds an agent by the hash of its token until it has ended; hashes are unique', async () => {
    await createInScope(store, 'a', { tokenHash: 'hash' })
    await createInScope(store, 'without')
    expect(await store.tasks.tokenHolder('hash')).toBe('a')
    expect(await store.tasks.tokenHolder('')).toBeUndefined()
    await expect(create(store, 'b', { tokenHash: 'hash' })).rejects.toThrow()
    await store.ledger.settle(settlement({ agents: { ended: [end('a')], stuckIds: [] } }))
    expect(await store.tasks.tokenHolder('hash')).toBeUndefined()
    // An ended agent that is stuck because it could not be deleted still counts as ended.
    await store.agents.change('a', { status: 'stuck' })
    expect(await store.tasks.tokenHolder('hash')).toBeUndefined()
  })

  it('a task is deleted with its scope, and with its owner record', async () => {
    for (const id of ['forgotten', 'closed', 'open', 'elsewhere']) await open(store, id, { namespace: id === 'elsewhere' ? 'm' : 'n' })
    await store.ledger.settle(settlement({ forgottenScopeIds: ['task-forgotten'], closedScopeIds: ['task-closed', 'task-elsewhere'] }))
    const ids = async () => (await store.tasks.list({ limit: 10 })).map(({ id }) => id)
    expect(await ids()).toEqual(['elsewhere', 'open', 'closed'])
    await store.agents.removeOwners('n')
    expect(await ids()).toEqual(['elsewhere', 'open'])
    await store.agents.removeOwners(undefined)
    expect(await ids()).toEqual(['open'])
  })

  it('keepFolder: the last mark of a shared folder is kept', async () => {
    expect(await store.tasks.findFolder('/base')).toBeUndefined()
    await store.tasks.keepFolder('/base', mark('1'))
    await store.tasks.keepFolder('/base', mark('2'))
    expect(await store.tasks.findFolder('/base')).toEqual(mark('2'))
  })

  it('findFolder: the mark of a shared folder is kept while a task uses the folder', async () => {
    for (const id of ['a', 'b', 'c']) await open(store, id, { base: '/base' })
    await open(store, 'other', { base: '/other', namespace: 'm' })
    for (const base of ['/base', '/other']) await store.tasks.keepFolder(base, mark('1'))
    const marks = async () => [await store.tasks.findFolder('/base'), await store.tasks.findFolder('/other')]
    await store.ledger.settle(settlement({ forgottenScopeIds: ['task-a'], closedScopeIds: ['task-b'] }))
    await store.agents.removeOwners('n')
    expect(await marks()).toEqual([mark('1'), mark('1')])
    await store.ledger.settle(settlement({ forgottenScopeIds: ['task-c'] }))
    expect(await marks()).toEqual([undefined, mark('1')])
    await store.ledger.settle(settlement({ closedScopeIds: ['task-other'] }))
    await store.agents.removeOwners(undefined)
    expect(await marks()).toEqual([undefined, undefined])
  })
}
