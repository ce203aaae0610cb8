import type { Agent, AgentError, AgentStatus } from '../core/model/agent.ts'
import type { Message } from '../core/model/message.ts'
import type { ResourceProgress } from '../core/model/progress.ts'
import type { Report } from '../core/model/report.ts'
import type { Run } from './run.ts'

/** Events about agents and closes. The names follow the public Socket.IO events (docs/in-depth/server.md). */
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
  /** This supervisor has adopted an agent that outlived the supervisor that launched it. */
  adopted: { readonly agent: Agent; readonly run: Run }
  /** An agent of a task has sent no report for longer than its limit. */
  silent: { readonly agentId: string; readonly namespace: string; readonly taskId: string; readonly silentMs: number }
  /** A close, or a combination of several, has begun. `id` is the id of its report. */
  closing: Closing
  /** A resource of a running close has changed its state. */
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

/** Calls listeners in the order of subscription. A listener that throws does not stop the others. */
export class Events {
  readonly #listeners = new Map<keyof EventMap, Set<Listener<never>>>()
  readonly #onFailure: (error: unknown) => void

  constructor(onFailure: (error: unknown) => void) {
    this.#onFailure = onFailure
  }

  /** Returns a function that ends the subscription. */
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
