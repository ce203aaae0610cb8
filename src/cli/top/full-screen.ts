import { writeSync } from 'node:fs'
import { sentence } from '../../core/model/errors.ts'

/**
 * The terminal's other screen, as long as it is ours: however this process ends, but by SIGKILL, the terminal is given back as
 * it was, with its cursor, its line wrapping, its keys, and what was on it.
 */

/** xterm: the alternate screen, no cursor, and no wrapping at the right edge. */
const enter = '\u001b[?1049h\u001b[?25l\u001b[?7l'
const leave = '\u001b[?7h\u001b[?25h\u001b[?1049l'

const leavingSignals = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1, SIGQUIT: 3 } as const

export interface FullScreen extends Disposable {
  draw(lines: readonly string[]): void
  /** As Ctrl-Z does with any other program; comes back with the screen. */
  suspend(): void
}

export interface Events {
  keys(data: string): void
  /** The size is another, or the screen is ours again. */
  redraw(): void
}

export function openFullScreen({ keys, redraw }: Events): FullScreen {
  const { stdin, stdout } = process
  let isOurs = false
  const take = (): void => {
    isOurs = true
    stdin.setRawMode(true)
    stdin.resume()
    stdout.write(enter)
  }
  // Synchronous: an exit waits for nobody. The terminal may be gone.
  const give = (): void => {
    if (!isOurs) return
    isOurs = false
    try {
      stdin.setRawMode(false)
      writeSync(1, leave)
    } catch {
      // Then there is nothing to give back.
    }
  }
  const onSignal = (signal: NodeJS.Signals): void => process.exit(128 + leavingSignals[signal as keyof typeof leavingSignals])
  const onError = (error: unknown): void => {
    give()
    process.stderr.write(
      `ebb: an error that nobody expected: ${error instanceof Error ? (error.stack ?? error.message) : sentence(error)}\n`,
    )
    process.exit(1)
  }
  // Not by the signal itself, which is ours now, whoever sent it.
  const suspend = (): void => {
    give()
    process.kill(process.pid, 'SIGSTOP')
  }
  const onContinue = (): void => {
    take()
    redraw()
  }
  const onData = (data: string): void => keys(data)
  // Whoever closed the terminal wants nothing more.
  const onClosed = (): void => process.exit(0)
  process.on('exit', give)
  process.on('uncaughtException', onError)
  process.on('unhandledRejection', onError)
  for (const signal of Object.keys(leavingSignals)) process.on(signal, onSignal)
  process.on('SIGTSTP', suspend)
  process.on('SIGCONT', onContinue)
  stdout.on('resize', redraw)
  stdout.on('error', onClosed)
  stdin.setEncoding('utf8').on('data', onData).on('end', onClosed).on('error', onClosed)
  take()
  return {
    draw: (lines) => {
      // A terminal that does not keep up gets the next one.
      if (!isOurs || stdout.writableNeedDrain) return
      // Erased before it is written: after a line that is as wide as the screen, the cursor is still on its last letter.
      stdout.write(`\u001b[H${lines.map((line) => `\u001b[2K${line}`).join('\r\n')}`)
    },
    suspend,
    [Symbol.dispose]: () => {
      give()
      process.off('exit', give)
      process.off('uncaughtException', onError)
      process.off('unhandledRejection', onError)
      for (const signal of Object.keys(leavingSignals)) process.off(signal, onSignal)
      process.off('SIGTSTP', suspend)
      process.off('SIGCONT', onContinue)
      stdout.off('resize', redraw)
      stdout.off('error', onClosed)
      stdin.off('data', onData).off('end', onClosed).off('error', onClosed).pause()
    },
  }
}
