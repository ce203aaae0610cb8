import { ask } from './client.ts'

/**
 * A server that is stopped by a signal, or hangs, keeps its connections: nothing is heard of it, and nothing breaks. So it is asked
 * now and then, while the page is seen; who does not answer in time is silent until it answers again.
 */
const beatMs = 3_000
const patienceMs = 5_000

export function watchHeartbeat(isWanted: () => boolean, tell: (isSilent: boolean) => void): void {
  const beat = async (): Promise<void> => {
    if (isWanted() && document.visibilityState === 'visible') {
      const isSilent = await ask('GET', '/health', { timeoutMs: patienceMs }).then(
        () => false,
        // A refusal is an answer, too.
        (error: unknown) => (error as { status?: number }).status === 0,
      )
      tell(isSilent)
    }
    setTimeout(() => void beat(), beatMs)
  }
  setTimeout(() => void beat(), beatMs)
}
