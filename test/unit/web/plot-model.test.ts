import { expect, test } from 'vitest'
import { bucketsOf, type Fate, logScale, percentile } from '../../../web/src/cleanup/plot-model.ts'

test('a percentile is a value that was measured', () => {
  const hundred = Array.from({ length: 100 }, (_, index) => index + 1)
  expect(percentile(hundred, 0.5)).toBe(50)
  expect(percentile(hundred, 0.95)).toBe(95)
  expect(percentile([7], 0.95)).toBe(7)
  expect(percentile([3, 1, 2], 0.5)).toBe(2)
  expect(percentile([], 0.5)).toBeUndefined()
})

test('the scale goes from one power of ten to another, and nothing lies outside of it', () => {
  const { place, marks } = logScale([4, 12_000])
  expect(marks).toEqual([1, 10, 100, 1_000, 10_000, 100_000])
  expect(place(1)).toBe(0)
  expect(place(100_000)).toBe(1)
  expect(place(0)).toBe(0)
  expect(place(1e12)).toBe(1)
  expect(place(10)).toBeCloseTo(0.2)
  expect(logScale([]).marks).toEqual([1, 10, 100, 1_000])
})

test('closes are heaped in order, each counted once, and one that failed as nothing else', () => {
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
  const sum = (fate: Fate): number => buckets.reduce((before, bucket) => before + bucket[fate], 0)
  expect({ calm: sum('calm'), told: sum('told'), killed: sum('killed'), failed: sum('failed') }).toEqual({
    calm: 70,
    told: 10,
    killed: 9,
    failed: 11,
  })
  expect(bucketsOf([], 28)).toEqual([])
})
