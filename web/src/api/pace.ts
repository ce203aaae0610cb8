/**
 * One load at a time, and between two that events ask for a pause: a busy server is not kept busy by those who watch it. What is
 * asked for meanwhile is loaded once more afterwards, so the last load always began after the last question.
 */
export interface Pace {
  /** At once, or at once after the load that is under way: somebody waits for it. */
  now(): void
  /** As soon as the pause is over: something has changed. */
  soon(): void
  stop(): void
}

/** People do not read faster. */
const leastPauseMs = 750
/** Whoever answers slowly is asked less often, but what is shown is never older than this and a load. */
const mostPauseMs = 5_000

export function paced(load: () => Promise<void>): Pace {
  let isLoading = false
  let isOver = false
  let wanted: 'now' | 'soon' | undefined
  let pausedUntilMs = Number.NEGATIVE_INFINITY
  let timer: ReturnType<typeof setTimeout> | undefined

  const run = async (): Promise<void> => {
    clearTimeout(timer)
    timer = undefined
    wanted = undefined
    isLoading = true
    const startedMs = performance.now()
    try {
      await load()
    } finally {
      isLoading = false
      const endedMs = performance.now()
      pausedUntilMs = endedMs + Math.min(mostPauseMs, Math.max(leastPauseMs, 2 * (endedMs - startedMs)))
      if (wanted === 'now') now()
      else if (wanted === 'soon') soon()
    }
  }
  const now = (): void => {
    if (isOver) return
    if (isLoading) wanted = 'now'
    else void run()
  }
  const soon = (): void => {
    if (isOver || timer !== undefined) return
    if (isLoading) wanted ??= 'soon'
    else timer = setTimeout(() => void run(), Math.max(0, pausedUntilMs - performance.now()))
  }
  return {
    now,
    soon,
    stop: () => {
      isOver = true
      clearTimeout(timer)
    },
  }
}
