import type { LadderStep } from '../../../src/core/model/ladder.ts'

/** The numbers behind the plots: pure functions of the history. */

export interface Measured {
  readonly id: string
  readonly startedAt: string
  readonly duration: number
  readonly success: boolean
  readonly escalation?: LadderStep
}

/** The value that so many of them do not exceed; undefined of nothing. */
export function percentile(values: readonly number[], share: number): number | undefined {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))]
}

/** A logarithmic scale from whole power of ten to whole power of ten, at least 1 ms to 1 s: as shares of the height. */
export interface LogScale {
  readonly place: (ms: number) => number
  readonly marks: readonly number[]
}

export function logScale(values: readonly number[]): LogScale {
  const low = 0
  const high = Math.max(3, Math.ceil(Math.log10(Math.max(1, ...values))))
  const place = (ms: number): number => Math.min(1, Math.max(0, (Math.log10(Math.max(1, ms)) - low) / (high - low)))
  return { place, marks: Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index)) }
}

/**
 * How far a close had to go. One that failed is nothing else, whatever it took. A kill that was asked for by force, or that is the
 * first step because a supervisor had died, is no escalation: nothing gentler was tried in vain.
 */
export const fates = ['calm', 'told', 'killed', 'failed'] as const
export type Fate = (typeof fates)[number]

export function fateOf({ success, escalation }: Measured): Fate {
  if (!success) return 'failed'
  if (escalation === undefined) return 'calm'
  return escalation === 'kill' ? 'killed' : 'told'
}

export interface Bucket extends Readonly<Record<Fate, number>> {
  readonly from: string
  readonly to: string
  readonly total: number
}

/** Oldest first, in so many heaps of equal size at most. */
export function bucketsOf(closes: readonly Measured[], most: number): readonly Bucket[] {
  const size = Math.max(1, Math.ceil(closes.length / most))
  const buckets: Bucket[] = []
  for (let at = 0; at < closes.length; at += size) {
    const own = closes.slice(at, at + size)
    const [first, last] = [own[0], own.at(-1)]
    if (first && last) buckets.push({ from: first.startedAt, to: last.startedAt, total: own.length, ...countFates(own) })
  }
  return buckets
}

export function countFates(closes: readonly Measured[]): Readonly<Record<Fate, number>> {
  const counts = { calm: 0, told: 0, killed: 0, failed: 0 }
  for (const close of closes) counts[fateOf(close)] += 1
  return counts
}
