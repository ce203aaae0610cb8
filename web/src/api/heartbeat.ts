import { ask } from './client.ts'

/**
 * A server that hangs, or was stopped by a signal, keeps its connections open and sends nothing. A periodic request detects this
 * while the page is visible. The server counts as silent from a missed deadline until its next answer.
 */
const beatMs = 3_000
const patienceMs = 5_000

export function watchHeartbeat(isWanted: () => boolean, notify: (isSilent: boolean) => void): void {
  const beat = async (): Promise<void> => {
    if (isWanted() && document.visibilityState === 'visible') {
      const isSilent = await ask('GET', '/health', { timeoutMs: patienceMs }).then(
        () => false,
        // An error status is an answer as well; status 0 means that none came.
        (error: unknown) => (error as { status?: number }).status === 0,
      )
      notify(isSilent)
    }
    setTimeout(() => void beat(), beatMs)
  }
  setTimeout(() => void beat(), beatMs)
}
