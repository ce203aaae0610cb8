import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { Stream } from '../../../../src/agents/stream/stream.ts'
import { EbbError } from '../../../../src/core/model/errors.ts'
import type { Message } from '../../../../src/core/model/message.ts'
import type { AgentStore, Progress } from '../../../../src/core/ports/agents.ts'
import { realClock } from '../../../../src/host/clock.ts'
import { temporaryHome } from '../../../support/home.ts'

/** A store that refuses the first saves, like a locked database, and then saves normally. */
class LockedStore {
  readonly saved: string[] = []
  position = 0
  #refusals: number

  constructor(refusals: number) {
    this.#refusals = refusals
  }

  async save(progress: readonly Progress[]): Promise<readonly (readonly Message[])[]> {
    if (this.#refusals-- > 0) throw new EbbError('ledger_busy', 'The database is locked.')
    return progress.map(({ agentId, messages, position }) => {
      if (position && position.from !== this.position) return []
      this.position = position?.to ?? this.position
      return messages.map((message) => {
        const sequenceNumber = this.saved.push(message.content) + 1
        return { ...message, agentId, sequenceNumber, createdAt: '2026-11-15T09:00:00.000Z' }
      })
    })
  }
}

it('stream: a batch that could not be saved is saved by the next try, in order, and emitted once', async () => {
  const directory = temporaryHome()
  const path = join(directory, 'stdout.log')
  const lines = Array.from({ length: 10_000 }, (_, index) => `line ${index}`)
  writeFileSync(path, `${lines.join('\n')}\n`)
  const store = new LockedStore(3)
  const emitted: string[] = []
  const warnings: string[] = []
  const log = { debug: () => {}, info: () => {}, error: () => {}, warn: (text: string) => void warnings.push(text) }
  await using stream = new Stream({
    agents: store as unknown as AgentStore,
    clock: realClock,
    log,
    onSaved: (_progress, messages) => emitted.push(...messages.map(({ content }) => content)),
    onTooMuch: () => {},
  })
  const parse = (line: string) => ({ messages: [{ type: 'response', content: line }] as const })
  const source = { agentId: 'a', stream: 'stdout', path, offset: 0, parse, limitBytes: 1_000_000, limitMessages: 1_000_000 }
  stream.follow(source)
  await stream.finish(path, async () => undefined)
  expect(store.saved).toEqual(lines)
  expect(emitted).toEqual(lines)
  // One warning is logged for the whole problem, not one for each attempt.
  expect(warnings).toHaveLength(1)
})
