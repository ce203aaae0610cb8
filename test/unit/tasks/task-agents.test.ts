import { expect, it } from 'vitest'
import type { Agent } from '../../../src/core/model/agent.ts'
import { TaskAgents } from '../../../src/tasks/task-agents.ts'

const agent = (id: string, parentAgentId?: string): Agent => ({
  id,
  name: `${id}-120000-abcdef`,
  type: 'command',
  status: 'running',
  placement: 'process',
  namespace: 'n',
  ...(parentAgentId !== undefined && { parentAgentId }),
  session: { id, prompt: 'p', messageCount: 1, configuration: {} },
  createdAt: '2026-11-15T09:00:00.000Z',
})

const newestFirst = [agent('d', 'b'), agent('c', 'b'), agent('b', 'a'), agent('a'), agent('orphan', 'deleted')]

it('task agents: agents loaded from rows have parent, generation and name', () => {
  const taskAgents = new TaskAgents(7)
  taskAgents.load(newestFirst)
  taskAgents.load(newestFirst)
  expect([...taskAgents.members].map(({ id, depth, agentType }) => [id, depth, agentType])).toEqual([
    ['orphan', 2, 'orphan'],
    ['a', 1, 'a'],
    ['b', 2, 'b'],
    ['c', 3, 'c'],
    ['d', 3, 'd'],
  ])
  expect(taskAgents.find('c-120000-abcdef')?.id).toBe('c')
  expect(taskAgents.descendants('a').map(({ id }) => id)).toEqual(['b', 'c', 'd'])
  expect(taskAgents.nameOf('b')).toBe('b-120000-abcdef')
  expect(taskAgents.nameOf(undefined)).toBe('orchestrator')
  expect(taskAgents.total).toBe(7)
})

it('task agents: isKilled is true for an agent that was killed with its descendants, and for everything below it', () => {
  const taskAgents = new TaskAgents(0)
  taskAgents.load(newestFirst)
  taskAgents.markKilled('a')
  expect(['a', 'b', 'd', 'orphan', undefined].map((id) => taskAgents.isKilled(id))).toEqual([true, true, true, false, false])
})
