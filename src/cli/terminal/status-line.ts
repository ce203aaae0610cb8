import { readAppearance } from '../../config/appearance.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { colours, noColours } from './palette.ts'
import { columnsOf } from './style.ts'
import { cut } from './text.ts'

/**
 * A line on standard error that says what the command waits for, and for how long. It appears after a second and is erased at
 * the end. It is shown only on a terminal, and never for scripts.
 */
export interface StatusLine {
  /** Starts to wait for `work`. */
  waitFor(work: string): void
  /** Hides the line before other output is written. It appears again with the next second. */
  hide(): void
  /** Erases the line and what the terminal echoed of a key, such as `^C`. */
  wipe(): void
  /** Ends the wait and erases the line. */
  end(): void
}

const tickMs = 1_000

const noStatusLine: StatusLine = { waitFor: () => {}, hide: () => {}, wipe: () => {}, end: () => {} }

/** `isInUse`: the last line of the terminal holds unfinished output, which the status line would overwrite. */
export function statusLine(clock: Clock, isQuiet: boolean, isInUse = (): boolean => false): StatusLine {
  const stream = process.stderr
  const appearance = readAppearance()
  if (isQuiet || !stream.isTTY || !appearance.canRedraw) return noStatusLine
  const { faint } = appearance.hasColour(true) ? colours : noColours
  let waiting = new AbortController()
  let isShown = false
  const wipe = (): void => {
    stream.write('\r\u001b[K')
    isShown = false
  }
  const hide = (): void => {
    if (isShown) wipe()
  }
  const end = (): void => {
    waiting.abort()
    hide()
  }
  return {
    hide,
    wipe,
    end,
    waitFor: (work) => {
      end()
      waiting = new AbortController()
      const sinceMs = clock.now()
      clock.every(tickMs, waiting.signal, () => {
        if (isInUse()) return
        const seconds = Math.round((clock.now() - sinceMs) / 1_000)
        // The last column stays empty: after it some terminals are on the next line already.
        stream.write(`\r${faint(cut(`… ${work} (${seconds} s)`, columnsOf(stream) - 1))}\u001b[K`)
        isShown = true
      })
    },
  }
}

/** Shows a status line until the action is finished. */
export async function withStatusLine<T>(clock: Clock, isQuiet: boolean, work: string, action: () => Promise<T>): Promise<T> {
  const line = statusLine(clock, isQuiet)
  line.waitFor(work)
  try {
    return await action()
  } finally {
    line.end()
  }
}
