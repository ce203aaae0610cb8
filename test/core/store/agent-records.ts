import type { Agent } from '../../../src/core/model/agent.ts'
import type { AgentEnd, AgentStore, NewAgent, NewMessage, OwnerRecord } from '../../../src/core/ports/agents.ts'
import type { Ledger } from '../../../src/core/ports/ledger.ts'
import { openAgent, report } from './records.ts'

/** Builds records for the store tests. A call gives only the fields that matter to the test. */

let ids = 0

export interface LedgerAndAgents {
  readonly ledger: Ledger
  readonly agents: AgentStore
}

export function newAgent(id: string, more: Partial<NewAgent> = {}): NewAgent {
  return {
    id,
    type: 'command',
    placement: 'process',
    namespace: 'default',
    prompt: 'Fix the "flaky" test, bitte schön',
    configuration: {},
    incarnation: 'i1',
    createdAt: '2026-11-15T09:00:00.000Z',
    ...more,
  }
}

export function newMessage(content: string, more: Partial<NewMessage> = {}): NewMessage {
  return { id: `message-${++ids}`, type: 'response', content, ...more }
}

export async function create({ ledger, agents }: LedgerAndAgents, id: string, more: Partial<NewAgent> = {}): Promise<NewAgent> {
  const agent = newAgent(id, more)
  await ledger.open({ scopes: [], rows: [agents.newAgent(agent, newMessage(agent.prompt, { type: 'user', role: 'user' }))] })
  return agent
}

/** Creates an agent row, and the scope with the same id. */
export async function createInScope(store: LedgerAndAgents, id: string, more: Partial<NewAgent> = {}): Promise<void> {
  await openAgent(store.ledger, id)
  await create(store, id, more)
}

export function end(agentId: string, more: Partial<AgentEnd> = {}): AgentEnd {
  return { agentId, status: 'completed', completedAt: '2026-11-15T09:00:09.000Z', report: report(agentId), ...more }
}

/** Saves `count` messages of an agent, in calls of at most 5,000 messages. */
export async function say(agents: AgentStore, agentId: string, count: number): Promise<void> {
  for (let said = 0; said < count; said += 5_000) {
    const messages = Array.from({ length: Math.min(5_000, count - said) }, (_, index) => newMessage(`line ${said + index + 1}`))
    await agents.save([{ agentId, messages }])
  }
}

export async function conversation(agents: AgentStore, agentId: string): Promise<readonly string[]> {
  return (await agents.messages(agentId, 0, 1_000_000)).map(({ sequenceNumber, content }) => `${sequenceNumber} ${content}`)
}

export async function statusOf(agents: AgentStore, id: string): Promise<Agent['status'] | undefined> {
  return (await agents.find(id))?.agent.status
}

/** Writes the row of a request or task. */
export async function openOwner({ ledger, agents }: LedgerAndAgents, owner: Omit<OwnerRecord, 'state'>): Promise<void> {
  await ledger.open({ scopes: [], rows: [agents.newOwner(owner)] })
}
