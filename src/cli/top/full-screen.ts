import { writeSync } from 'node:fs'
import { sentence } from '../../core/model/errors.ts'

/**
 * The alternate screen of the terminal. At every end of this process except SIGKILL, the terminal is restored: its screen,
 * cursor, line wrapping and keys.
 */

/** xterm control sequences: the alternate screen, no cursor, and no wrapping at the right edge. */
const enter = '\u001b[?1049h\u001b[?25l\u001b[?7l'
const leave = '\u001b[?7h\u001b[?25h\u001b[?1049l'

const leavingSignals = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1, SIGQUIT: 3 } as const

export interface FullScreen extends Disposable {
  draw(lines: readonly string[]): void
  /** Stops this process, as Ctrl-Z does with other programs. SIGCONT shows the screen again. */
  suspend(): void
}

export interface Events {
  keys(data: string): void
  /** Called when the size of the terminal has changed, or when the screen is shown again after a stop. */
  redraw(): void
}

export function openFullScreen({ keys, redraw }: Events): FullScreen {
  const { stdin, stdout } = process
  let isTaken = false
  const take = (): void => {
    isTaken = true
    stdin.setRawMode(true)
    stdin.resume()
    stdout.write(enter)
  }
  // The write is synchronous, because an exit handler cannot wait. The terminal may be gone.
  const give = (): void => {
    if (!isTaken) return
    isTaken = false
    try {
      stdin.setRawMode(false)
      writeSync(1, leave)
    } catch {
      // The terminal is gone, so there is nothing to restore.
    }
  }
  const onSignal = (signal: NodeJS.Signals): void => process.exit(128 + leavingSignals[signal as keyof typeof leavingSignals])
  const onError = (error: unknown): void => {
    give()
    process.stderr.write(`ebb: an unexpected error: ${error instanceof Error ? (error.stack ?? error.message) : sentence(error)}\n`)
    process.exit(1)
  }
  // Uses SIGSTOP, because SIGTSTP is caught by this function's own listener.
  const suspend = (): void => {
    give()
    process.kill(process.pid, 'SIGSTOP')
  }
  const onContinue = (): void => {
    take()
    redraw()
  }
  const onData = (data: string): void => keys(data)
  // The terminal was closed, so the command ends.
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
      // A slow terminal skips frames.
      if (!isTaken || stdout.writableNeedDrain) return
      // A line is erased before it is written: after a line of full width the cursor is on its last character, and an erase would remove it.
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
