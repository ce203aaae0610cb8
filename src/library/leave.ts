import type { Supervisor } from '../supervisor.ts'

const leaveSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Listeners of every Ebb in this process: among themselves they are not somebody else's decision. */
const ours = new WeakSet<object>()

/**
 * The process we are a guest in may end at any time. On a signal everything is closed, proven, and the signal is sent
 * again by the last Ebb that has left, so that the process dies of it as it would have without us; unless the host has a
 * listener of its own, whose decision it then is. On any other exit one synchronous write ends every process, and the
 * sentinel does the books.
 */
export function leaveCleanly(supervisor: Supervisor, until: AbortSignal, close: () => Promise<void>): void {
  const onExit = (): void => supervisor.killAllNow()
  process.on('exit', onExit)
  until.addEventListener('abort', () => process.off('exit', onExit), { once: true })
  for (const signal of leaveSignals) {
    const onSignal = (): void => {
      const isUpToUs = process.listeners(signal).every((listener) => ours.has(listener))
      close()
        .catch((error: unknown) => supervisor.log.error('Cleanup: leaving was not clean.', { error: String(error) }))
        .finally(() => {
          process.off(signal, onSignal)
          if (isUpToUs && process.listenerCount(signal) === 0) process.kill(process.pid, signal)
        })
    }
    ours.add(onSignal)
    process.on(signal, onSignal)
    until.addEventListener('abort', () => process.off(signal, onSignal), { once: true })
  }
}
