import type { LadderStep } from '../../../src/core/model/ladder.ts'

/** The figures of the plots, as pure functions of the history of closes. */

export interface Measured {
  readonly id: string
  readonly startedAt: string
  readonly duration: number
  readonly success: boolean
  readonly escalation?: LadderStep
}

/** The value that the given share of the values does not exceed (nearest rank). Undefined without values. */
export function percentile(values: readonly number[], share: number): number | undefined {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))]
}

/** A logarithmic scale between powers of ten, at least from 1 ms to 1 s. `place` returns a share of the height, from 0 to 1. */
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
 * How far a close had to escalate. A failed close counts only as failed. A kill as the first step, by force or in a recovery, is no
 * escalation: no gentler step was tried before.
 */
export const escalationLevels = ['unescalated', 'terminated', 'killed', 'failed'] as const
export type EscalationLevel = (typeof escalationLevels)[number]

export function levelOf({ success, escalation }: Measured): EscalationLevel {
  if (!success) return 'failed'
  if (escalation === undefined) return 'unescalated'
  return escalation === 'kill' ? 'killed' : 'terminated'
}

export interface Bucket extends Readonly<Record<EscalationLevel, number>> {
  readonly from: string
  readonly to: string
  readonly total: number
}

/** Splits the closes into at most `most` buckets of equal size, in their order. */
export function bucketsOf(closes: readonly Measured[], most: number): readonly Bucket[] {
  const size = Math.max(1, Math.ceil(closes.length / most))
  const buckets: Bucket[] = []
  for (let at = 0; at < closes.length; at += size) {
    const own = closes.slice(at, at + size)
    const [first, last] = [own[0], own.at(-1)]
    if (first && last) buckets.push({ from: first.startedAt, to: last.startedAt, total: own.length, ...countLevels(own) })
  }
  return buckets
}

export function countLevels(closes: readonly Measured[]): Readonly<Record<EscalationLevel, number>> {
  const counts = { unescalated: 0, terminated: 0, killed: 0, failed: 0 }
  for (const close of closes) counts[levelOf(close)] += 1
  return counts
}
