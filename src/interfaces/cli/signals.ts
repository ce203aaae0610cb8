import { readFileSync } from 'node:fs'

/** Signals that ask us to leave, and those that are only news for the command. */
const leaveSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const
const newsSignals = ['SIGUSR1', 'SIGUSR2', 'SIGWINCH'] as const

/** Listens until `until` aborts. */
export function onSignals(until: AbortSignal, listener: (signal: NodeJS.Signals, meansLeave: boolean) => void): void {
  for (const signal of [...leaveSignals, ...newsSignals]) {
    const meansLeave = (leaveSignals as readonly string[]).includes(signal)
    const handle = (): void => {
      // The kernel tells a terminal's whole foreground group of a new window size.
      if (signal === 'SIGWINCH' && sharesTerminal()) return
      listener(signal, meansLeave)
    }
    process.on(signal, handle)
    until.addEventListener('abort', () => process.off(signal, handle), { once: true })
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
