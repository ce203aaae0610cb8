import { expect, it } from 'vitest'
import { Events } from '../../../src/agents/events.ts'
import { Waiting } from '../../../src/agents/waiting.ts'
import type { AgentStatus } from '../../../src/core/model/agent.ts'
import type { AgentRecord } from '../../../src/core/ports/agents.ts'
import { realClock } from '../../../src/host/clock.ts'

/** A time that is longer than the timeout of a test. A wait that is not woken makes its test time out. */
const longMs = 600_000

function agentOf(status: AgentStatus, messageCount: number) {
  const record = { agent: { status, session: { messageCount } } }
  return { record, get: async () => record as unknown as AgentRecord }
}

it.each(['completed', 'failed', 'terminated', 'stuck'] as const)(
  'forNews: returns at once for an agent that is %s, and ends when the agent becomes so',
  async (status) => {
    const events = new Events((error) => {
      throw error
    })
    const waiting = new Waiting(events, realClock)
    await waiting.forNews(agentOf(status, 3), 'a', 3, longMs)
    const living = agentOf('running', 3)
    const woken = waiting.forNews(living, 'a', 3, longMs)
    living.record.agent.status = status
    events.emit('status', { agentId: 'a', namespace: 'default', status })
    await woken
  },
)

it('forNews: ends with the first new message', async () => {
  const events = new Events((error) => {
    throw error
  })
  const waiting = new Waiting(events, realClock)
  const living = agentOf('running', 3)
  const woken = waiting.forNews(living, 'a', 3, longMs)
  living.record.agent.session.messageCount = 4
  events.emit('messages', { agentId: 'a', messages: [] })
  await woken
  expect(await waiting.forMessages('a', 0, async () => undefined)).toBeUndefined()
})
