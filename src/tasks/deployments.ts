import type { Agent } from '../core/model/agent.ts'
import { EbbError } from '../core/model/errors.ts'

/** A deployment under way, for everybody who asked for the same. */
interface Underway {
  readonly agent: Promise<Agent>
  /** Those who still want it. */
  wanted: number
  readonly unwanted: AbortController
}

/** The same deployment asked for twice at once is one; who asked later gets the same agent, or the same failure. */
export class Deployments {
  readonly #underway = new Map<string, Underway>()

  /** Joins the one of this key, if there is one. */
  join(key: string, signal: AbortSignal | undefined): Promise<Agent> | undefined {
    const underway = this.#underway.get(key)
    // Nobody wanted it any more, and it is being taken back.
    if (!underway || underway.unwanted.signal.aborted) return undefined
    return wait(underway, signal)
  }

  /** `work` is told when nobody wants it any more, and then has to leave nothing behind. */
  begin(key: string, signal: AbortSignal | undefined, work: (unwanted: AbortSignal) => Promise<Agent>): Promise<Agent> {
    const unwanted = new AbortController()
    const agent = work(unwanted.signal)
    const underway: Underway = { agent, wanted: 0, unwanted }
    this.#underway.set(key, underway)
    const over = (): void => {
      if (this.#underway.get(key) === underway) this.#underway.delete(key)
    }
    agent.then(over, over)
    return wait(underway, signal)
  }
}

/** Who does not want it any more waits until it is taken back, unless others want it. */
async function wait(underway: Underway, signal: AbortSignal | undefined): Promise<Agent> {
  underway.wanted += 1
  const gone = Promise.withResolvers<void>()
  const leave = (): void => {
    underway.wanted -= 1
    if (underway.wanted === 0) underway.unwanted.abort()
    else gone.resolve()
  }
  if (signal?.aborted) leave()
  else signal?.addEventListener('abort', leave, { once: true })
  try {
    const agent = await Promise.race([underway.agent, gone.promise])
    if (!agent) throw cancelled()
    return agent
  } finally {
    signal?.removeEventListener('abort', leave)
  }
}

export function cancelled(): EbbError {
  return new EbbError('cancelled', 'The deployment was cancelled; nothing of it is left.')
}
