import { within } from '../core/engine/race.ts'
import { type AgentStatus, isFinal } from '../core/model/agent.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Agents } from './agents.ts'
import type { Events } from './events.ts'

/** Who waits for an agent waits no longer: it has ended, or nobody knows whether it ever will. */
export function isOverWith(status: AgentStatus): boolean {
  return isFinal(status) || status === 'stuck'
}

/** For callers that cannot listen: a wait that ends at the event, or at its deadline. */
export class Waiting {
  readonly #clock: Clock
  readonly #messages = new Waiters()
  readonly #ends = new Waiters()

  constructor(events: Events, clock: Clock) {
    this.#clock = clock
    events.on('messages', ({ agentId }) => this.#messages.wake(agentId))
    events.on('status', ({ agentId, status }) => {
      if (!isOverWith(status)) return
      this.#messages.wake(agentId)
      this.#ends.wake(agentId)
    })
    events.on('deleted', ({ agentId }) => {
      this.#messages.wake(agentId)
      this.#ends.wake(agentId)
    })
  }

  /** Resolves when `look` finds something, looked at now and at each event, or with its last look at the deadline. */
  async forMessages<T>(agentId: string, ms: number, look: () => Promise<T | undefined>): Promise<T | undefined> {
    return await this.#until(this.#messages, agentId, ms, look)
  }

  /** Until more was said than `since`, or nothing more is to be expected. */
  async forNews(agents: Pick<Agents, 'get'>, agentId: string, since: number, ms: number): Promise<void> {
    await this.forMessages(agentId, ms, async () => {
      const { agent } = await agents.get(agentId)
      return agent.session.messageCount > since || isOverWith(agent.status) ? agent : undefined
    })
  }

  /** Nobody will be told of anything any more. */
  wakeAll(): void {
    this.#messages.wakeAll()
    this.#ends.wakeAll()
  }

  async forEnd<T>(agentId: string, ms: number, look: () => Promise<T | undefined>): Promise<T | undefined> {
    return await this.#until(this.#ends, agentId, ms, look)
  }

  async #until<T>(waiters: Waiters, agentId: string, ms: number, look: () => Promise<T | undefined>): Promise<T | undefined> {
    const untilMs = this.#clock.now() + ms
    for (;;) {
      // Asked before the look: what happens between the two is not missed.
      const { woken, leave } = waiters.wait(agentId)
      try {
        const found = await look()
        const leftMs = untilMs - this.#clock.now()
        if (found !== undefined || leftMs <= 0) return found
        await within(this.#clock, leftMs, woken)
      } finally {
        leave()
      }
    }
  }
}

class Waiters {
  readonly #byAgent = new Map<string, Set<() => void>>()

  wait(agentId: string): { readonly woken: Promise<void>; readonly leave: () => void } {
    const { promise, resolve } = Promise.withResolvers<void>()
    const waiters = this.#byAgent.get(agentId) ?? new Set()
    this.#byAgent.set(agentId, waiters.add(resolve))
    const leave = (): void => {
      waiters.delete(resolve)
      if (waiters.size === 0) this.#byAgent.delete(agentId)
    }
    return { woken: promise, leave }
  }

  wake(agentId: string): void {
    for (const resolve of this.#byAgent.get(agentId) ?? []) resolve()
  }

  wakeAll(): void {
    for (const agentId of this.#byAgent.keys()) this.wake(agentId)
  }
}
