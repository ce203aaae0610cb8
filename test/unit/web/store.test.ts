import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { Conversation } from '../../../web/src/agent/store.ts'

/** The part of a conversation that the page holds, with a server that answers when the test says so. */

interface Asked {
  answer(count: number): void
  fail(): void
}

let asked: Asked[]

beforeEach(() => {
  asked = []
  vi.stubGlobal('sessionStorage', { getItem: () => null })
  vi.stubGlobal('requestAnimationFrame', (draw: () => void) => {
    draw()
    return 0
  })
  vi.stubGlobal('cancelAnimationFrame', () => {})
  vi.stubGlobal('fetch', () => {
    const { promise, resolve, reject } = Promise.withResolvers<Response>()
    asked.push({
      answer: (count) => resolve(new Response(JSON.stringify(Array.from({ length: count }, (_, index) => message(index + 1))))),
      fail: () => reject(new TypeError('Failed to fetch')),
    })
    return promise
  })
})
afterEach(() => vi.unstubAllGlobals())

function message(sequenceNumber: number): object {
  return { sequenceNumber, type: 'assistant', content: `line ${sequenceNumber}`, createdAt: '2026-01-01T00:00:00.000Z' }
}

/** Looked at as a page does: with every change, what is shown is wanted again. */
function shown(total: number): Conversation {
  const conversation = new Conversation('an-agent', total)
  conversation.subscribe(() => conversation.want(1, total))
  conversation.want(1, total)
  return conversation
}

it('what cannot be fetched is a problem, and is asked for again only when somebody says so', async () => {
  const conversation = shown(3)
  asked[0]?.fail()
  await vi.waitFor(() => expect(conversation.problem).toMatch(/cannot be reached/))
  expect(asked).toHaveLength(1)
  conversation.retry()
  asked[1]?.answer(3)
  await vi.waitFor(() => expect(conversation.line(3)?.text).toBe('line 3'))
  expect(conversation.problem).toBeUndefined()
})

it('a call that fails after the connection is back is made again, and is no problem', async () => {
  const conversation = shown(3)
  conversation.retry()
  asked[0]?.fail()
  await vi.waitFor(() => expect(asked).toHaveLength(2))
  expect(conversation.problem).toBeUndefined()
  asked[1]?.answer(3)
  await vi.waitFor(() => expect(conversation.line(3)?.text).toBe('line 3'))
})
