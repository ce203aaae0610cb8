import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { Conversation } from '../../../web/src/agent/store.ts'

/** Tests the messages that the page holds, with a fake server whose answers the test controls. */

interface PendingRequest {
  answer(count: number): void
  fail(): void
}

let requests: PendingRequest[]

beforeEach(() => {
  requests = []
  vi.stubGlobal('sessionStorage', { getItem: () => null })
  vi.stubGlobal('requestAnimationFrame', (draw: () => void) => {
    draw()
    return 0
  })
  vi.stubGlobal('cancelAnimationFrame', () => {})
  vi.stubGlobal('fetch', () => {
    const { promise, resolve, reject } = Promise.withResolvers<Response>()
    requests.push({
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

/** Creates a conversation that is used as by the page: after every change, the visible range is requested again. */
function shown(total: number): Conversation {
  const conversation = new Conversation('an-agent', total)
  conversation.subscribe(() => conversation.want(1, total))
  conversation.want(1, total)
  return conversation
}

it('Conversation: a failed fetch is reported as a problem, and is repeated only by retry()', async () => {
  const conversation = shown(3)
  requests[0]?.fail()
  await vi.waitFor(() => expect(conversation.problem).toMatch(/cannot be reached/))
  expect(requests).toHaveLength(1)
  conversation.retry()
  requests[1]?.answer(3)
  await vi.waitFor(() => expect(conversation.line(3)?.text).toBe('line 3'))
  expect(conversation.problem).toBeUndefined()
})

it('Conversation: a fetch from before a retry that fails afterwards is repeated, and is not reported', async () => {
  const conversation = shown(3)
  conversation.retry()
  requests[0]?.fail()
  await vi.waitFor(() => expect(requests).toHaveLength(2))
  expect(conversation.problem).toBeUndefined()
  requests[1]?.answer(3)
  await vi.waitFor(() => expect(conversation.line(3)?.text).toBe('line 3'))
})
