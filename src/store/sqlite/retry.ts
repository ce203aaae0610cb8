import { EbbError } from '../../core/model/errors.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { isBusy } from './explain.ts'

/**
 * Retries an attempt that fails because the database is locked, with growing pauses and jitter. `node:sqlite` is synchronous: a busy
 * timeout inside of it would block the event loop, and with it every ladder.
 */
export async function retryWhileBusy<T>(clock: Clock, budgetMs: number, attempt: () => T): Promise<T> {
  const untilMs = clock.now() + budgetMs
  for (let tries = 0; ; tries++) {
    try {
      return attempt()
    } catch (error) {
      if (!isBusy(error)) throw error
      const waitMs = Math.min(25, 2 ** Math.min(tries, 5)) * (0.5 + Math.random() / 2)
      if (clock.now() + waitMs > untilMs) {
        throw new EbbError(
          'ledger_busy',
          'The database is locked by another process; find out which holds it (for example with "fuser"), then try again.',
          { cause: error },
        )
      }
      await new Promise<void>((resolve) => clock.after(waitMs, new AbortController().signal, resolve))
    }
  }
}
