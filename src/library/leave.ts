import type { Supervisor } from '../supervisor.ts'

const leaveSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** The signal listeners of all Ebb instances in this process. They do not count as listeners of the host program. */
const ours = new WeakSet<object>()

/**
 * Closes everything when the host program ends. On a signal it closes everything, with proof; then the last Ebb instance sends
 * the signal again, so that the program dies of it as it would without Ebb. If the program has a listener of its own, that
 * listener decides instead. On any other exit, one synchronous write kills every process, and the sentinel completes the ledger.
 */
export function leaveCleanly(supervisor: Supervisor, until: AbortSignal, close: () => Promise<void>): void {
  const onExit = (): void => supervisor.killAllNow()
  process.on('exit', onExit)
  until.addEventListener('abort', () => process.off('exit', onExit), { once: true })
  for (const signal of leaveSignals) {
    const onSignal = (): void => {
      const isOursToResend = process.listeners(signal).every((listener) => ours.has(listener))
      close()
        .catch((error: unknown) =>
          supervisor.log.error('Cleanup: not everything could be released before the program ended.', { error: String(error) }),
        )
        .finally(() => {
          process.off(signal, onSignal)
          if (isOursToResend && process.listenerCount(signal) === 0) process.kill(process.pid, signal)
        })
    }
    ours.add(onSignal)
    process.on(signal, onSignal)
    until.addEventListener('abort', () => process.off(signal, onSignal), { once: true })
  }
}
