import { type RefObject, useEffect, useState } from 'react'

/** The interval at which texts and axis lines are updated. The bars are updated with every frame. */
const stepMs = 250

/** The axis is longer than the elapsed time by this factor, so that open bars do not touch its end. */
const axisFactor = 1.06
const minAxisMs = 400

/**
 * While a close runs, updates the CSS variables `--now` and `--total` of the container with every frame, without rendering. Returns the
 * elapsed time, updated at `stepMs`. With `prefers-reduced-motion` the variables change at `stepMs` only.
 */
export function useFrames(container: RefObject<HTMLElement | null>, startedMs: number, isRunning: boolean): number {
  const [now, setNow] = useState(() => Math.max(0, Date.now() - startedMs))
  useEffect(() => {
    if (!isRunning) return undefined
    const isReducedMotion = window.matchMedia('(prefers-reduced-motion: reduce)').matches
    let frame = 0
    let lastStepMs = Number.NEGATIVE_INFINITY
    const draw = (): void => {
      const elapsedMs = Math.max(0, Date.now() - startedMs)
      const isStep = elapsedMs - lastStepMs >= stepMs
      if (isStep || !isReducedMotion) {
        container.current?.style.setProperty('--now', String(elapsedMs))
        container.current?.style.setProperty('--total', String(axisOf(elapsedMs)))
      }
      if (isStep) {
        lastStepMs = elapsedMs
        setNow(elapsedMs)
      }
      frame = requestAnimationFrame(draw)
    }
    frame = requestAnimationFrame(draw)
    return () => cancelAnimationFrame(frame)
  }, [container, startedMs, isRunning])
  return now
}

export function axisOf(elapsedMs: number): number {
  return Math.max(minAxisMs, elapsedMs * axisFactor)
}
