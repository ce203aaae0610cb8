import type { Launched } from '../agents/agents.ts'
import { EbbError } from '../core/model/errors.ts'

/** A running deployment, shared by all callers that requested the same agent. */
interface RunningDeployment {
  readonly launched: Promise<Launched>
  /** The number of callers that have not cancelled. */
  callers: number
  readonly cancellation: AbortController
}

/** Joins concurrent requests for the same deployment: all callers get the same agent, or the same failure. */
export class Deployments {
  readonly #deployments = new Map<string, RunningDeployment>()

  /** Joins the running deployment of this key, if there is one. */
  join(key: string, signal: AbortSignal | undefined): Promise<Launched> | undefined {
    const running = this.#deployments.get(key)
    // A deployment that all callers cancelled is being rolled back and cannot be joined.
    if (!running || running.cancellation.signal.aborted) return undefined
    return wait(running, signal)
  }

  /** Starts a deployment. The signal aborts when all callers have cancelled; `work` must then leave nothing behind. */
  begin(key: string, signal: AbortSignal | undefined, work: (cancellation: AbortSignal) => Promise<Launched>): Promise<Launched> {
    const cancellation = new AbortController()
    const launched = work(cancellation.signal)
    const running: RunningDeployment = { launched, callers: 0, cancellation }
    this.#deployments.set(key, running)
    const remove = (): void => {
      if (this.#deployments.get(key) === running) this.#deployments.delete(key)
    }
    launched.then(remove, remove)
    return wait(running, signal)
  }
}

/** Waits for the agent. A caller that cancels is released at once if others wait too; else it waits for the rollback. */
async function wait(running: RunningDeployment, signal: AbortSignal | undefined): Promise<Launched> {
  running.callers += 1
  const released = Promise.withResolvers<void>()
  const leave = (): void => {
    running.callers -= 1
    if (running.callers === 0) running.cancellation.abort()
    else released.resolve()
  }
  if (signal?.aborted) leave()
  else signal?.addEventListener('abort', leave, { once: true })
  try {
    const launched = await Promise.race([running.launched, released.promise])
    if (!launched) throw cancelled()
    return launched
  } finally {
    signal?.removeEventListener('abort', leave)
  }
}

export function cancelled(): EbbError {
  return new EbbError('cancelled', 'The deployment was cancelled; nothing of it is left.')
}
