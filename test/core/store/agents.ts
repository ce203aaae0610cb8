import { afterEach, beforeEach, describe } from 'vitest'
import { agentCases } from './agent-cases.ts'
import { agentEndCases } from './agent-end-cases.ts'
import type { AgentsUnderTest, OpenedStore } from './connections.ts'
import { messageCases } from './message-cases.ts'
import { ownerCases } from './owner-cases.ts'
import { taskCases } from './task-cases.ts'

/** The conformance suite of agent stores: every store must pass it unchanged. */

export function agentsConformance(name: string, open: () => Promise<OpenedStore>): void {
  describe(`${name} as a store of agents`, () => {
    let opened: OpenedStore
    beforeEach(async () => {
      opened = await open()
    })
    afterEach(() => opened.dispose())

    const store: AgentsUnderTest = {
      get ledger() {
        return opened.ledger
      },
      get agents() {
        return opened.agents
      },
      get tasks() {
        return opened.tasks
      },
      reopen: () => opened.reopen(),
    }
    describe('rows', () => agentCases(store))
    describe('messages', () => messageCases(store))
    describe('ends', () => agentEndCases(store))
    describe('owners', () => ownerCases(store))
    describe('tasks', () => taskCases(store))
  })
}
