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

/** A fake source that records the start numbers of all subscriptions and the active listeners. */
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
  const emit = (from: number, to: number): void => {
    for (let number = from; number <= to; number++) for (const listener of [...listeners]) listener(message(number))
  }
  return { source, begun, listeners, emit }
}

/** Resolves in a later task of the event loop, when every promise that can settle by then has settled. */
function nextTask(): Promise<void> {
  const { port1, port2 } = new MessageChannel()
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close()
      resolve()
    }
    port2.postMessage('')
  })
}

describe('followEnd', () => {
  it('followEnd: skips to the end when the writer is far ahead', async () => {
    const reader = aReader()
    const { source, begun, listeners, emit } = aSource(async () => 50_000)
    followEnd(reader, source)
    emit(1, 1_000)
    await vi.waitFor(() => expect(begun).toEqual([0, 50_000]))
    expect(listeners.size).toBe(1)
    emit(50_001, 50_001)
    expect(reader.taken.at(-1)).toBe(50_001)
  })

  it('followEnd: takes every message while it keeps up, or when the count fails', async () => {
    for (const count of [async () => 2_500, async () => Promise.reject(new Error('no answer'))]) {
      const counting = vi.fn(count)
      const reader = aReader()
      const { source, begun, emit } = aSource(counting)
      followEnd(reader, source)
      emit(1, 1_000)
      // The answer with the count arrives before the next message.
      await nextTask()
      expect(counting).toHaveBeenCalledOnce()
      emit(1_001, 2_500)
      await nextTask()
      expect(counting).toHaveBeenCalledTimes(2)
      expect(begun).toEqual([0])
      expect(reader.taken).toHaveLength(2_500)
    }
  })

  it('followEnd: does not subscribe again when it was stopped during the count', async () => {
    const answer = Promise.withResolvers<number>()
    const { source, begun, listeners, emit } = aSource(() => answer.promise)
    const stop = followEnd(aReader(), source)
    emit(1, 1_000)
    stop()
    answer.resolve(50_000)
    await answer.promise
    expect(begun).toEqual([0])
    expect(listeners.size).toBe(0)
  })
})
