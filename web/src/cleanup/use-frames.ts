import { type RefObject, useEffect, useState } from 'react'

/** Words and lines follow in steps that can be read; the bars follow smoothly. */
const stepMs = 250

/** The axis is a little longer than what has passed, so that what goes on has somewhere to go. */
const roomAhead = 1.06
const leastMs = 400

/**
 * While something is under way, the place's `--now` and `--total` grow with every frame, without React; the answer is the same
 * number in steps. Who wants less motion gets the steps only.
 */
export function useFrames(place: RefObject<HTMLElement | null>, startedMs: number, isRunning: boolean): number {
  const [now, setNow] = useState(() => Math.max(0, Date.now() - startedMs))
  useEffect(() => {
    if (!isRunning) return undefined
    const isCalm = window.matchMedia('(prefers-reduced-motion: reduce)').matches
    let frame = 0
    let toldMs = Number.NEGATIVE_INFINITY
    const draw = (): void => {
      const passed = Math.max(0, Date.now() - startedMs)
      const isStep = passed - toldMs >= stepMs
      if (isStep || !isCalm) {
        place.current?.style.setProperty('--now', String(passed))
        place.current?.style.setProperty('--total', String(axisOf(passed)))
      }
      if (isStep) {
        toldMs = passed
        setNow(passed)
      }
      frame = requestAnimationFrame(draw)
    }
    frame = requestAnimationFrame(draw)
    return () => cancelAnimationFrame(frame)
  }, [place, startedMs, isRunning])
  return now
}

export function axisOf(passedMs: number): number {
  return Math.max(leastMs, passedMs * roomAhead)
}
