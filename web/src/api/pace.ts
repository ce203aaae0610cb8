/**
 * Limits how often data is loaded. Only one load runs at a time, and a pause follows before a load that an event requested, so that
 * open dashboards do not keep a busy server busy. Requests during a load cause one more load, so the last load always begins
 * after the last request.
 */
export interface Pace {
  /** Loads at once, or right after the running load. For requests of the user. */
  now(): void
  /** Loads when the pause has passed. For events that report a change. */
  soon(): void
  stop(): void
}

/** The shortest pause between two loads. The user cannot read faster updates. */
const leastPauseMs = 750
/** The longest pause between two loads. A slow server is asked less often, but the data is never older than this pause plus one load. */
const mostPauseMs = 5_000

export function paced(load: () => Promise<void>): Pace {
  let isLoading = false
  let isStopped = false
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
    if (isStopped) return
    if (isLoading) wanted = 'now'
    else void run()
  }
  const soon = (): void => {
    if (isStopped || timer !== undefined) return
    if (isLoading) wanted ??= 'soon'
    else timer = setTimeout(() => void run(), Math.max(0, pausedUntilMs - performance.now()))
  }
  return {
    now,
    soon,
    stop: () => {
      isStopped = true
      clearTimeout(timer)
    },
  }
}
