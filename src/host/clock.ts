import type { Clock } from '../core/ports/clock.ts'

/**
 * CLOCK_MONOTONIC in milliseconds: shared by all processes of one boot, and never set back. Not `performance.now`, because its first use
 * loads nine modules of Node, which takes 0.7 ms.
 */
export const monotonicMs = (): number => Number(process.hrtime.bigint() / 1_000n) / 1_000

export const realClock: Clock = {
  now: monotonicMs,
  wall: () => new Date().toISOString(),
  after: (ms, signal, callback) => {
    if (signal.aborted) return
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', cancel)
      callback()
    }, ms)
    const cancel = (): void => clearTimeout(timer)
    signal.addEventListener('abort', cancel, { once: true })
  },
  every: (ms, signal, callback) => {
    const timer = setInterval(callback, ms).unref()
    signal.addEventListener('abort', () => clearInterval(timer), { once: true })
  },
}
