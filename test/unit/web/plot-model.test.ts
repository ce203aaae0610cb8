import { expect, test } from 'vitest'
import { bucketsOf, type EscalationLevel, logScale, percentile } from '../../../web/src/cleanup/plot-model.ts'

test('percentile: returns one of the measured values', () => {
  const hundred = Array.from({ length: 100 }, (_, index) => index + 1)
  expect(percentile(hundred, 0.5)).toBe(50)
  expect(percentile(hundred, 0.95)).toBe(95)
  expect(percentile([7], 0.95)).toBe(7)
  expect(percentile([3, 1, 2], 0.5)).toBe(2)
  expect(percentile([], 0.5)).toBeUndefined()
})

test('logScale: spans powers of ten, and clamps values outside of it', () => {
  const { place, marks } = logScale([4, 12_000])
  expect(marks).toEqual([1, 10, 100, 1_000, 10_000, 100_000])
  expect(place(1)).toBe(0)
  expect(place(100_000)).toBe(1)
  expect(place(0)).toBe(0)
  expect(place(1e12)).toBe(1)
  expect(place(10)).toBeCloseTo(0.2)
  expect(logScale([]).marks).toEqual([1, 10, 100, 1_000])
})

test('bucketsOf: counts each close once and in order, and a failed one only as failed', () => {
  const closes = Array.from({ length: 100 }, (_, index) => ({
    id: String(index),
    startedAt: new Date(index * 1_000).toISOString(),
    duration: 1,
    success: index % 10 !== 2 && index !== 0,
    ...(index % 10 === 0 && { escalation: 'kill' as const }),
    ...(index % 10 === 1 && { escalation: 'terminate' as const }),
  }))
  const buckets = bucketsOf(closes, 28)
  expect(buckets.length).toBeLessThanOrEqual(28)
  expect(buckets.reduce((sum, { total }) => sum + total, 0)).toBe(100)
  const sum = (level: EscalationLevel): number => buckets.reduce((before, bucket) => before + bucket[level], 0)
  expect({ unescalated: sum('unescalated'), terminated: sum('terminated'), killed: sum('killed'), failed: sum('failed') }).toEqual({
    unescalated: 70,
    terminated: 10,
    killed: 9,
    failed: 11,
  })
  expect(bucketsOf([], 28)).toEqual([])
})
