import { EbbError } from '../model/errors.ts'
import type { Cancellation, Clock } from '../ports/clock.ts'

/** Deadlines are races (G14): a wait ends at the event, and the timer only bounds it. */

export type Timed<T> = { readonly timedOut: false; readonly value: T } | { readonly timedOut: true }

/** The abort reason of a wait whose result is no longer needed. */
export const noLongerNeeded = 'no longer needed'

export async function within<T>(clock: Clock, ms: number, work: Promise<T>): Promise<Timed<T>> {
  const timer = new CancelledOnce()
  const timeout = new Promise<Timed<T>>((resolve) => {
    clock.after(Math.max(0, ms), timer, () => resolve({ timedOut: true }))
  })
  try {
    return await Promise.race([work.then((value) => ({ timedOut: false, value }) as const), timeout])
  } finally {
    timer.cancel()
  }
}

/** The cancellation of one timer. Each `ebb exec` has twenty, and with an AbortController for each they take twice the time. */
class CancelledOnce implements Cancellation {
  aborted = false
  #listener: (() => void) | undefined

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listener = listener
  }

  removeEventListener(): void {
    this.#listener = undefined
  }

  cancel(): void {
    this.aborted = true
    this.#listener?.()
  }
}

/** Waits `ms` between two attempts, or less when `wake` settles first. Use it only between retries. */
export async function pause(clock: Clock, ms: number, wake: Promise<unknown>): Promise<void> {
  await within(clock, ms, wake.then(noop, noop)) // `wake` only ends the pause. Its value or error is ignored.
}

/** The wait before retry n. It doubles from 4 ms, so that a brief obstacle costs little and a lasting one is not polled constantly. */
export function backoffMs(attempt: number, longestMs = 500): number {
  return Math.min(longestMs, 2 ** Math.min(attempt, 20) * 2)
}

export function scopeClosed(scopeId: string): EbbError {
  return new EbbError('scope_closed', `Scope ${scopeId} is closing or closed and accepts nothing; open a new one.`)
}

export function noop(): void {}
