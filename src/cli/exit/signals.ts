import { readFileSync } from 'node:fs'

/** Signals that request the exit, and signals that are only forwarded to the command. */
const leaveSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const
const forwardedSignals = ['SIGUSR1', 'SIGUSR2', 'SIGWINCH'] as const

type SignalListener = (signal: NodeJS.Signals, requestsExit: boolean, isEarly: boolean) => void

interface CaughtSignals {
  listen(listener: SignalListener): void
  /** Restores the default effect of the signals. */
  release(): void
}

/**
 * Catches all signals until they are released. Signals that arrive before a listener is set are kept, and passed to it first.
 * Signals that were ignored at the start stay ignored.
 */
export function catchSignals(ignored: readonly NodeJS.Signals[]): CaughtSignals {
  const early: NodeJS.Signals[] = []
  let notify = (signal: NodeJS.Signals): void => void early.push(signal)
  const onSignal = (signal: NodeJS.Signals): void => {
    // The kernel sends a new window size to the whole foreground group of a terminal.
    if (signal !== 'SIGWINCH' || !sharesTerminal()) notify(signal)
  }
  const all = [...leaveSignals, ...forwardedSignals].filter((signal) => !ignored.includes(signal))
  for (const signal of all) process.on(signal, onSignal)
  const requestsExit = (signal: NodeJS.Signals): boolean => (leaveSignals as readonly string[]).includes(signal)
  return {
    listen: (listener) => {
      notify = (signal) => listener(signal, requestsExit(signal), false)
      for (const signal of early) listener(signal, requestsExit(signal), true)
    },
    release: () => {
      for (const signal of all) process.off(signal, onSignal)
    },
  }
}

/** Whether this process is in the foreground group of a terminal. Then Ctrl-C reaches the command directly (proc_pid_stat(5): tty_nr, tpgid). */
export function sharesTerminal(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1')
    const field = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return field[4] !== '0' && field[5] === field[2]
  } catch {
    return process.stdin.isTTY === true || process.stderr.isTTY === true
  }
}
