import { within } from '../core/engine/race.ts'
import { type AgentStatus, isFinal } from '../core/model/agent.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Agents } from './agents.ts'
import type { Events } from './events.ts'

/** True when waiting for an agent is pointless: it has ended, or it is stuck. */
export function isOverWith(status: AgentStatus): boolean {
  return isFinal(status) || status === 'stuck'
}

/** Waits for callers that cannot subscribe to events. A wait ends at the event or at its deadline. */
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

  /** Calls `check` now, at each event and at the deadline. Resolves with the first result, or undefined at the deadline. */
  async forMessages<T>(agentId: string, ms: number, check: () => Promise<T | undefined>): Promise<T | undefined> {
    return await this.#until(this.#messages, agentId, ms, check)
  }

  /** Waits until the agent has more than `since` messages, or will have no more. */
  async forNews(agents: Pick<Agents, 'get'>, agentId: string, since: number, ms: number): Promise<void> {
    await this.forMessages(agentId, ms, async () => {
      const { agent } = await agents.get(agentId)
      return agent.session.messageCount > since || isOverWith(agent.status) ? agent : undefined
    })
  }

  /** Ends all waits when the process shuts down. */
  wakeAll(): void {
    this.#messages.wakeAll()
    this.#ends.wakeAll()
  }

  async forEnd<T>(agentId: string, ms: number, check: () => Promise<T | undefined>): Promise<T | undefined> {
    return await this.#until(this.#ends, agentId, ms, check)
  }

  async #until<T>(waiters: Waiters, agentId: string, ms: number, check: () => Promise<T | undefined>): Promise<T | undefined> {
    const untilMs = this.#clock.now() + ms
    for (;;) {
      // The waiter is registered before the check, so that an event between the two is not missed.
      const { woken, leave } = waiters.wait(agentId)
      try {
        const found = await check()
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
