import { describe, expect, it } from 'vitest'
import { type Session, Sessions } from '../../../../src/server/mcp/sessions.ts'
import { VirtualClock } from '../../../support/virtual-clock.ts'

/** MCP sessions are limited in number and in idle time. A session in use is never ended. */

const hour = 3_600_000

function openSessions(): { sessions: Sessions; clock: VirtualClock; ended: string[]; add(id: string): void } {
  const clock = new VirtualClock()
  const sessions = new Sessions(clock)
  const ended: string[] = []
  const add = (id: string): void => {
    const server = { close: async () => void ended.push(id) } as unknown as Session['server']
    sessions.add({ id, caller: 'orchestrator', server, transport: {} as Session['transport'] })
  }
  return { sessions, clock, ended, add }
}

const never = new Promise<void>(() => {})

describe('MCP sessions: the limit', () => {
  it('ends sessions without a stream before those with one, and never one that waits for an answer', () => {
    const { sessions, ended, add } = openSessions()
    for (let n = 0; n < 200; n++) add(`s${n}`)
    sessions.use('s0', 'calls', never)
    sessions.use('s1', 'streams', never)
    add('new')
    expect([ended, sessions.size]).toEqual([['s2'], 200])
    for (let n = 3; n < 200; n++) sessions.use(`s${n}`, 'calls', never)
    sessions.use('new', 'calls', never)
    add('newer')
    expect(ended).toEqual(['s2', 's1'])
    sessions.use('newer', 'calls', never)
    expect(sessions.hasRoom()).toBe(false)
    sessions.close()
    expect([ended.length, sessions.size]).toEqual([202, 0])
  })
})

describe('MCP sessions: idle ones', () => {
  it('end after an hour without a connection', async () => {
    const { sessions, clock, ended, add } = openSessions()
    for (const id of ['idle', 'listens', 'answered']) add(id)
    sessions.use('listens', 'streams', never)
    const answer = Promise.withResolvers<void>()
    sessions.use('answered', 'calls', answer.promise)
    const wait = (ms: number): Promise<void> => clock.run(clock.pause(ms))
    await wait(hour / 2)
    answer.resolve()
    await wait(hour / 2 + 60_000)
    expect(ended).toEqual(['idle'])
    await wait(hour)
    expect(ended).toEqual(['idle', 'answered'])
    sessions.close()
  })
})
