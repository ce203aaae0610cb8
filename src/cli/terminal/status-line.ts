import { readAppearance } from '../../config/appearance.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { columnsOf } from './face.ts'
import { colours, noColours } from './palette.ts'
import { cut } from './text.ts'

/**
 * One line on the terminal's standard error that says what is being waited for. It comes after a second, tells the time,
 * and is gone at the end. In a pipe, and for scripts, there is none.
 */
export interface StatusLine {
  /** From now on this is what is waited for. */
  waitFor(words: string): void
  /** Somebody else is about to write; the line comes again with its next second. */
  hide(): void
  /** What the terminal echoed of a key, such as `^C`, goes. */
  wipe(): void
  /** Nothing is waited for any more. */
  over(): void
}

const tickMs = 1_000

const nowhere: StatusLine = { waitFor: () => {}, hide: () => {}, wipe: () => {}, over: () => {} }

/** `isInUse`: the terminal's last line is somebody else's, and would be written over. */
export function statusLine(clock: Clock, isQuiet: boolean, isInUse = (): boolean => false): StatusLine {
  const stream = process.stderr
  const appearance = readAppearance()
  if (isQuiet || !stream.isTTY || !appearance.canRedraw) return nowhere
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
  const over = (): void => {
    waiting.abort()
    hide()
  }
  return {
    hide,
    wipe,
    over,
    waitFor: (words) => {
      over()
      waiting = new AbortController()
      const sinceMs = clock.now()
      clock.every(tickMs, waiting.signal, () => {
        if (isInUse()) return
        const seconds = Math.round((clock.now() - sinceMs) / 1_000)
        // Not in the last column, where some terminals are on the next line already.
        stream.write(`\r${faint(cut(`… ${words} (${seconds} s)`, columnsOf(stream) - 1))}\u001b[K`)
        isShown = true
      })
    },
  }
}

/** Says what is waited for as long as the work takes. */
export async function during<T>(clock: Clock, isQuiet: boolean, words: string, work: () => Promise<T>): Promise<T> {
  const line = statusLine(clock, isQuiet)
  line.waitFor(words)
  try {
    return await work()
  } finally {
    line.over()
  }
}
