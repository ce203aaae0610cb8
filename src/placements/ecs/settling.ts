import type { Clock } from '../../core/ports/clock.ts'

/** What was not seen for the first time, and when: absence counts only after a while of it. */
export class Settling {
  readonly #settleMs: number
  readonly #since = new Map<string, number>()

  constructor(settleMs: number) {
    this.#settleMs = settleMs
  }

  /** How long it has been missing now, and whether that is long enough. */
  missing(id: string, clock: Clock): { readonly isLong: boolean; readonly leftMs: number } {
    const since = this.#since.get(id) ?? clock.now()
    remember(this.#since, id, since)
    const leftMs = Math.max(0, since + this.#settleMs - clock.now())
    return { isLong: leftMs === 0, leftMs }
  }

  seen(id: string): void {
    this.#since.delete(id)
  }
}

/**
 * What was asked for, and of which nobody has heard or seen yet that it was done: it may still appear. Once it was seen there is
 * nothing left to wait for.
 */
export class Unconfirmed {
  readonly #settling: Settling
  readonly #seen = new Map<string, true>()

  constructor(settleMs: number) {
    this.#settling = new Settling(settleMs)
  }

  seen(id: string): void {
    remember(this.#seen, id, true)
    this.#settling.seen(id)
  }

  /** It is not to be seen: for how long that means nothing yet. */
  leftMs(id: string, clock: Clock): number {
    return this.#seen.has(id) ? 0 : this.#settling.missing(id, clock).leftMs
  }
}

/** Memory is no ledger: what is forgotten is looked at, and waited for, again. */
const mostRemembered = 4_096

export function remember<T>(memory: Map<string, T>, id: string, value: T): void {
  memory.delete(id)
  memory.set(id, value)
  const oldest = memory.size > mostRemembered ? memory.keys().next().value : undefined
  if (oldest !== undefined) memory.delete(oldest)
}
