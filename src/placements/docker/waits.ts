import type { Clock } from '../../core/ports/clock.ts'

/** The longest delay between two attempts. A daemon that restarts answers again after half a second. */
const longestMs = 500

/** Waits before the next attempt to reach a daemon: from 4 ms, doubling. An abort ends the wait. */
export function backoff(clock: Clock, attempt: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const timer = new AbortController()
    const done = (): void => {
      timer.abort('no longer needed')
      signal.removeEventListener('abort', done)
      resolve()
    }
    signal.addEventListener('abort', done, { once: true })
    clock.after(Math.min(longestMs, 2 ** Math.min(attempt, 20) * 2), timer.signal, done)
  })
}

/** Waits for a promise. Returns true when it settles in time, and rejects when it rejects. */
export async function isDoneIn(clock: Clock, ms: number, work: Promise<unknown>): Promise<boolean> {
  const timer = new AbortController()
  const late = new Promise<boolean>((resolve) => clock.after(ms, timer.signal, () => resolve(false)))
  try {
    return await Promise.race([work.then(() => true), late])
  } finally {
    timer.abort('no longer needed')
  }
}

export async function inTime(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  if (!(await isDoneIn(clock, ms, work))) throw new Error(`the Docker daemon did not answer within ${ms} ms`)
}
