import { describe, expect, it, vi } from 'vitest'
import type { Message } from '../../../src/core/model/message.ts'
import { followEnd, type Reader, type Source } from '../../../web/src/agent/follow-end.ts'

const message = (sequenceNumber: number): Message => ({
  id: `m${sequenceNumber}`,
  agentId: 'a',
  sequenceNumber,
  type: 'response',
  content: `line ${sequenceNumber}`,
  createdAt: '2026-11-16T15:00:00.000Z',
})

function aReader(): Reader & { readonly taken: number[] } {
  let total = 0
  const taken: number[] = []
  const grow = (to: number): void => {
    total = Math.max(total, to)
  }
  return {
    taken,
    grow,
    get total() {
      return total
    },
    take: ({ sequenceNumber }) => {
      taken.push(sequenceNumber)
      grow(sequenceNumber)
    },
  }
}

/** It remembers from where it was followed, and by how many it still is. */
function aSource(count: () => Promise<number>) {
  const begun: number[] = []
  const listeners = new Set<(message: Message) => void>()
  const source: Source = {
    count,
    follow: ({ since, onMessage }) => {
      begun.push(since())
      listeners.add(onMessage)
      return () => void listeners.delete(onMessage)
    },
  }
  const says = (from: number, to: number): void => {
    for (let number = from; number <= to; number++) for (const listener of [...listeners]) listener(message(number))
  }
  return { source, begun, listeners, says }
}

describe('who follows a conversation', () => {
  it('goes on at the end when the writer is far ahead', async () => {
    const reader = aReader()
    const { source, begun, listeners, says } = aSource(async () => 50_000)
    followEnd(reader, source)
    says(1, 1_000)
    await vi.waitFor(() => expect(begun).toEqual([0, 50_000]))
    expect(listeners.size).toBe(1)
    says(50_001, 50_001)
    expect(reader.taken.at(-1)).toBe(50_001)
  })

  it('takes every message while it keeps up, or when nobody says how many there are', async () => {
    for (const count of [async () => 2_500, async () => Promise.reject(new Error('no answer'))]) {
      const counting = vi.fn(count)
      const reader = aReader()
      const { source, begun, says } = aSource(counting)
      followEnd(reader, source)
      says(1, 1_000)
      // Its answer is heard before the next message comes.
      await new Promise(setImmediate)
      expect(counting).toHaveBeenCalledOnce()
      says(1_001, 2_500)
      await new Promise(setImmediate)
      expect(counting).toHaveBeenCalledTimes(2)
      expect(begun).toEqual([0])
      expect(reader.taken).toHaveLength(2_500)
    }
  })

  it('does not begin anew when it has ended meanwhile', async () => {
    const answer = Promise.withResolvers<number>()
    const { source, begun, listeners, says } = aSource(() => answer.promise)
    const stop = followEnd(aReader(), source)
    says(1, 1_000)
    stop()
    answer.resolve(50_000)
    await answer.promise
    expect(begun).toEqual([0])
    expect(listeners.size).toBe(0)
  })
})
