/** Resolves when `work` does. When `work` takes longer than `ms`, the result is that of `onLate`. */
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

/**
 * The shortest and the longest pause between two polls, for states that have no event. The pause doubles, so that the server is not
 * overloaded.
 */
const firstPauseMs = 10
const longestPauseMs = 250

/** Polls until `observe` returns a value, or the deadline has passed. Polls at least once. */
export async function pollUntil<T>(ms: number, observe: () => Promise<T | undefined>): Promise<T | undefined> {
  const untilMs = performance.now() + ms
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
    const found = await observe()
    const leftMs = untilMs - performance.now()
    if (found !== undefined || leftMs <= 0) return found
    await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs, leftMs)))
  }
}
