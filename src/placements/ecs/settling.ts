import type { Clock } from '../../core/ports/clock.ts'

/**
 * Remembers since when a resource has been missing. A missing resource counts as absent only after some time, because AWS is eventually
 * consistent.
 */
export class Settling {
  readonly #settleMs: number
  readonly #since = new Map<string, number>()

  constructor(settleMs: number) {
    this.#settleMs = settleMs
  }

  /** `isLong` is true when the resource has been missing for long enough to count as absent. `leftMs` is the time until then. */
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
 * Remembers the resources whose creation was neither confirmed nor observed, and which may still appear. A resource that was observed once
 * counts as absent as soon as it is missing.
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

  /** How much longer a missing resource does not count as absent, in milliseconds. */
  leftMs(id: string, clock: Clock): number {
    return this.#seen.has(id) ? 0 : this.#settling.missing(id, clock).leftMs
  }
}

/** The maximum number of remembered resources, which bounds the memory. A forgotten resource is observed and awaited again. */
const mostRemembered = 4_096

export function remember<T>(memory: Map<string, T>, id: string, value: T): void {
  memory.delete(id)
  memory.set(id, value)
  const oldest = memory.size > mostRemembered ? memory.keys().next().value : undefined
  if (oldest !== undefined) memory.delete(oldest)
}
