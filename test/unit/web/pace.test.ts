import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Pace, paced } from '../../../web/src/api/pace.ts'

/** A pace whose loads take `tookMs`, and the start times of its loads. */
function loads(tookMs: number): { readonly pace: Pace; readonly beganMs: number[] } {
  const beganMs: number[] = []
  const startMs = performance.now()
  const pace = paced(async () => {
    beganMs.push(Math.round(performance.now() - startMs))
    await new Promise((resolve) => setTimeout(resolve, tookMs))
  })
  return { pace, beganMs }
}

describe('paced', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  it('paced: loads on the first event, then pauses, and loads once more after the last event', async () => {
    const { pace, beganMs } = loads(50)
    for (let at = 0; at < 2_000; at += 10) {
      pace.soon()
      await vi.advanceTimersByTimeAsync(10)
    }
    const lastEventMs = 1_990
    await vi.advanceTimersByTimeAsync(10_000)
    expect(beganMs).toEqual([0, 800, 1_600, 2_400])
    expect(beganMs.at(-1)).toBeGreaterThan(lastEventMs)
  })

  it('paced: pauses longer for a slow server, but at most five seconds', async () => {
    const { pace, beganMs } = loads(1_000)
    const slow = loads(20_000)
    for (let at = 0; at < 60_000; at += 100) {
      pace.soon()
      slow.pace.soon()
      await vi.advanceTimersByTimeAsync(100)
    }
    expect(beganMs.slice(0, 4)).toEqual([0, 3_000, 6_000, 9_000])
    expect(slow.beganMs).toEqual([0, 25_000, 50_000])
  })

  it('paced: now() loads at once, or right after the running load', async () => {
    const { pace, beganMs } = loads(100)
    pace.soon()
    await vi.advanceTimersByTimeAsync(150)
    pace.now()
    await vi.advanceTimersByTimeAsync(50)
    pace.soon()
    pace.now()
    pace.now()
    await vi.advanceTimersByTimeAsync(10_000)
    expect(beganMs).toEqual([0, 150, 250])
  })

  it('paced: loads nothing after stop()', async () => {
    const { pace, beganMs } = loads(100)
    pace.now()
    pace.soon()
    pace.stop()
    await vi.advanceTimersByTimeAsync(10_000)
    pace.now()
    pace.soon()
    await vi.advanceTimersByTimeAsync(10_000)
    expect(beganMs).toEqual([0])
  })
})
