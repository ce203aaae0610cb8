import { expect, it } from 'vitest'
import type { Agent } from '../../../src/core/model/agent.ts'
import { Roster, type RosterDeps } from '../../../src/tasks/roster.ts'

/** Of a thousand crews and more only those are kept in mind of which somebody lives, and the last that were asked for. */

function startRoster({ living = [], completed = [] }: { living?: readonly string[]; completed?: readonly string[] } = {}) {
  const learned: string[] = []
  const deps = {
    tasks: {
      find: async (id: string) => ({ id, namespace: 'n', deployed: 1, ...(completed.includes(id) && { completedAt: 'then' }) }),
    },
    store: {
      list: async ({ taskId = '' }) => {
        learned.push(taskId)
        return { agents: [{ id: `agent of ${taskId}`, session: { prompt: '' } } as Agent] }
      },
    },
    agents: { living: new Map(living.map((task) => [`agent of ${task}`, {}])) },
  }
  const roster = new Roster(deps as unknown as RosterDeps)
  const enter = async (taskId: string): Promise<boolean> => {
    learned.length = 0
    await roster.enter({ taskId, caller: 'orchestrator' })
    return learned.includes(taskId)
  }
  return { enter }
}

it('the crew of a task is learned once, and that of a completed one each time', async () => {
  const { enter } = startRoster({ completed: ['over'] })
  expect([await enter('open'), await enter('open')]).toEqual([true, false])
  expect([await enter('over'), await enter('over')]).toEqual([true, true])
})

it('those that nobody lives in, and nobody asked for, go first', async () => {
  const { enter } = startRoster({ living: ['lived in'] })
  for (const id of ['lived in', 'asked for', 'forgotten']) await enter(id)
  for (let other = 4; other <= 1_000; other++) await enter(`other ${other}`)
  await enter('asked for')
  await enter('one too many')
  expect(await enter('lived in')).toBe(false)
  expect(await enter('asked for')).toBe(false)
  expect(await enter('forgotten')).toBe(true)
})
