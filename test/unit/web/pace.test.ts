import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Pace, paced } from '../../../web/src/api/pace.ts'

/** Loads take as long as is said, and each remembers when it began. */
function loads(tookMs: number): { readonly pace: Pace; readonly beganMs: number[] } {
  const beganMs: number[] = []
  const startMs = performance.now()
  const pace = paced(async () => {
    beganMs.push(Math.round(performance.now() - startMs))
    await new Promise((resolve) => setTimeout(resolve, tookMs))
  })
  return { pace, beganMs }
}

describe('loads that events ask for', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  it('begin with the first event, then pause, and a last one comes after the last event', async () => {
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

  it('ask a slow server less often, but never more seldom than every five seconds', async () => {
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

  it('do not keep a person waiting, who asks at once or right after the one that is under way', async () => {
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

  it('end with whoever shows them', async () => {
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
