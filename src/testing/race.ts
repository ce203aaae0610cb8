/** Deadlines are races: a wait ends at the event, and the timer only bounds it. */
export async function within<T>(ms: number, work: Promise<T>, onLate: () => T): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<T>((resolve, reject) => {
    timer = setTimeout(
      () => {
        try {
          resolve(onLate())
        } catch (error) {
          reject(error as Error)
        }
      },
      Math.max(0, ms),
    )
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Between two looks at a server that has no event for what is waited for: short at first, then not hammered. */
const firstPauseMs = 10
const longestPauseMs = 250

/** Looks until there is something to answer, or until the deadline has passed; there is always one look. */
export async function lookUntil<T>(ms: number, look: () => Promise<T | undefined>): Promise<T | undefined> {
  const untilMs = performance.now() + ms
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
    const found = await look()
    const leftMs = untilMs - performance.now()
    if (found !== undefined || leftMs <= 0) return found
    await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs, leftMs)))
  }
}
