import type { Clock } from '../core/ports/clock.ts'

export const realClock: Clock = {
  // CLOCK_MONOTONIC: shared by all processes of one boot, and never set back.
  now: () => Number(process.hrtime.bigint() / 1_000n) / 1_000,
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
