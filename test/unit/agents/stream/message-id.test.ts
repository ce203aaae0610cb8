import { expect, it } from 'vitest'
import { z } from 'zod'
import { messageId } from '../../../../src/agents/stream/message-id.ts'

const agent = '7f8e9d0c-1b2a-4938-8756-453423120100'

it('message id: is a UUID of version 5', () => {
  for (let offset = 0; offset < 500; offset++)
    expect(z.uuid({ version: 'v5' }).safeParse(messageId(agent, 'stdout', offset, 0)).success).toBe(true)
})

it('message id: the same place gives the same id, also in later releases', () => {
  expect(messageId(agent, 'stdout', 42, 1)).toBe(messageId(agent, 'stdout', 42, 1))
  // Clients identify messages by this id, also across an upgrade.
  expect(messageId(agent, 'stdout', 42, 1)).toBe('383e77c3-9ff6-583f-947e-75dc9feb8545')
})

it('message id: different places give different ids', () => {
  const places = ['stdout', 'stderr', 'prompt', 'schedule'].flatMap((stream) =>
    Array.from({ length: 200 }, (_, offset) => [0, 1, -1].map((part) => messageId(agent, stream, offset, part))).flat(),
  )
  expect(new Set([...places, messageId(agent.replace('7', '8'), 'stdout', 0, 0)]).size).toBe(places.length + 1)
})
