import type { Agent, AgentError, AgentStatus } from '../core/model/agent.ts'
import type { Message } from '../core/model/message.ts'
import type { ResourceProgress } from '../core/model/progress.ts'
import type { Report } from '../core/model/report.ts'
import type { Run } from './run.ts'

/** Events of agents, for everyone who observes them. Names follow the public Socket.IO events (docs/in-depth/server.md). */
export interface EventMap {
  created: { readonly agent: Agent }
  status: { readonly agentId: string; readonly namespace: string; readonly status: AgentStatus }
  messages: { readonly agentId: string; readonly messages: readonly Message[] }
  error: { readonly agentId: string; readonly error: AgentError }
  complete: {
    readonly agentId: string
    readonly result: { readonly status: 'success' | 'failed'; readonly duration: number; readonly messageCount: number }
  }
  terminated: { readonly agentId: string; readonly namespace: string; readonly exitCode: number | null; readonly duration: number }
  deleted: { readonly agentId: string; readonly namespace: string }
  /** An agent that outlived its supervisor goes on with us. */
  adopted: { readonly agent: Agent; readonly run: Run }
  /** An agent of a task has reported nothing for longer than it may. */
  silent: { readonly agentId: string; readonly namespace: string; readonly taskId: string; readonly silentMs: number }
  /** A close, or several together, has begun; `id` is that of its report. */
  closing: Closing
  /** One resource of it has moved. */
  progress: Closing & { readonly resource: ResourceProgress }
  report: { readonly report: Report; readonly id?: string; readonly namespace?: string }
  alert: { readonly scope: Report['scope']; readonly failures: number; readonly namespace?: string }
}

interface Closing {
  readonly id: string
  readonly trigger: Report['trigger']
  readonly scope: Report['scope']
  readonly startedAt: string
  readonly namespace?: string
}

type Listener<T> = (event: T) => void

/** Told in the order in which they listened; one that throws does not keep the others from hearing. */
export class Events {
  readonly #listeners = new Map<keyof EventMap, Set<Listener<never>>>()
  readonly #onFailure: (error: unknown) => void

  constructor(onFailure: (error: unknown) => void) {
    this.#onFailure = onFailure
  }

  /** What is given back ends the listening. */
  on<K extends keyof EventMap>(name: K, listener: Listener<EventMap[K]>): () => void {
    const listeners = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, listeners)
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }

  emit<K extends keyof EventMap>(name: K, event: EventMap[K]): void {
    for (const listener of this.#listeners.get(name) ?? []) {
      try {
        ;(listener as Listener<EventMap[K]>)(event)
      } catch (error) {
        this.#onFailure(error)
      }
    }
  }
}
