import { expect, it } from 'vitest'
import type { Agent } from '../../../src/core/model/agent.ts'
import { Roster, type RosterDeps } from '../../../src/tasks/roster.ts'

/** The roster keeps up to 1,000 tasks in memory: those with running agents, and the most recently used ones. */

function startRoster({ living = [], completed = [] }: { living?: readonly string[]; completed?: readonly string[] } = {}) {
  const loaded: string[] = []
  const deps = {
    tasks: {
      find: async (id: string) => ({ id, namespace: 'n', deployed: 1, ...(completed.includes(id) && { completedAt: 'then' }) }),
    },
    store: {
      list: async ({ taskId = '' }) => {
        loaded.push(taskId)
        return { agents: [{ id: `agent of ${taskId}`, session: { prompt: '' } } as Agent] }
      },
    },
    agents: { living: new Map(living.map((task) => [`agent of ${task}`, {}])) },
  }
  const roster = new Roster(deps as unknown as RosterDeps)
  const enter = async (taskId: string): Promise<boolean> => {
    loaded.length = 0
    await roster.enter({ taskId, caller: 'orchestrator' })
    return loaded.includes(taskId)
  }
  return { enter }
}

it('roster: the agents of an open task are loaded once, those of a completed task on each request', async () => {
  const { enter } = startRoster({ completed: ['over'] })
  expect([await enter('open'), await enter('open')]).toEqual([true, false])
  expect([await enter('over'), await enter('over')]).toEqual([true, true])
})

it('roster: forgets tasks without running agents first, the least recently used of them', async () => {
  const { enter } = startRoster({ living: ['running'] })
  for (const id of ['running', 'used', 'forgotten']) await enter(id)
  for (let other = 4; other <= 1_000; other++) await enter(`other ${other}`)
  await enter('used')
  await enter('beyond the limit')
  expect(await enter('running')).toBe(false)
  expect(await enter('used')).toBe(false)
  expect(await enter('forgotten')).toBe(true)
})
