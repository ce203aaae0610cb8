import { readFileSync } from 'node:fs'

/** Signals that ask us to leave, and those that are only news for the command. */
const leaveSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const
const newsSignals = ['SIGUSR1', 'SIGUSR2', 'SIGWINCH'] as const

type SignalListener = (signal: NodeJS.Signals, meansLeave: boolean, isEarly: boolean) => void

interface CaughtSignals {
  listen(listener: SignalListener): void
  /** From now on a signal ends us as it ends anybody. */
  release(): void
}

/**
 * From now on, and until they are released, no signal ends us by itself. Those that come before there is a command to
 * tell are kept, and told first. Of those that were ignored when we were started nobody is told.
 */
export function catchSignals(ignored: readonly NodeJS.Signals[]): CaughtSignals {
  const early: NodeJS.Signals[] = []
  let tell = (signal: NodeJS.Signals): void => void early.push(signal)
  const onSignal = (signal: NodeJS.Signals): void => {
    // The kernel tells a terminal's whole foreground group of a new window size.
    if (signal !== 'SIGWINCH' || !sharesTerminal()) tell(signal)
  }
  const all = [...leaveSignals, ...newsSignals].filter((signal) => !ignored.includes(signal))
  for (const signal of all) process.on(signal, onSignal)
  const meansLeave = (signal: NodeJS.Signals): boolean => (leaveSignals as readonly string[]).includes(signal)
  return {
    listen: (listener) => {
      tell = (signal) => listener(signal, meansLeave(signal), false)
      for (const signal of early) listener(signal, meansLeave(signal), true)
    },
    release: () => {
      for (const signal of all) process.off(signal, onSignal)
    },
  }
}

/** Are we in the foreground group of a terminal? Then Ctrl-C reaches the command without us (proc_pid_stat(5): tty_nr, tpgid). */
export function sharesTerminal(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1')
    const field = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return field[4] !== '0' && field[5] === field[2]
  } catch {
    return process.stdin.isTTY === true || process.stderr.isTTY === true
  }
}
