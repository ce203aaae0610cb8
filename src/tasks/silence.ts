import type { Events } from '../agents/events.ts'
import type { Run } from '../agents/run.ts'
import type { TaskLimits } from '../agents/settings.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'

interface Watched {
  readonly run: Run
  readonly taskId: string
  lastReportMs: number
  lastReportAt: string
  isSilent: boolean
}

export interface SilenceDeps {
  readonly clock: Clock
  readonly log: Log
  readonly events: Events
  readonly limits: TaskLimits
}

/** Finds agents that have stopped reporting, emits `silent`, and ends them if so configured. Uses one timer for each agent. */
export class Silence {
  readonly #deps: SilenceDeps
  readonly #watched = new Map<string, Watched>()

  constructor(deps: SilenceDeps) {
    this.#deps = deps
  }

  /** Begins to check an agent. Its launch counts as the first report. */
  watch(run: Run, taskId: string): void {
    if (run.signal.aborted) return
    const { clock } = this.#deps
    const watched: Watched = { run, taskId, lastReportMs: clock.now(), lastReportAt: clock.wall(), isSilent: false }
    this.#watched.set(run.id, watched)
    run.signal.addEventListener('abort', () => this.#watched.delete(run.id), { once: true })
    this.#wait(watched, this.#deps.limits.stuckThresholdMs)
  }

  /** Records a report of an agent. */
  reported(agentId: string): void {
    const watched = this.#watched.get(agentId)
    if (!watched) return
    const { clock, limits } = this.#deps
    watched.lastReportMs = clock.now()
    watched.lastReportAt = clock.wall()
    if (!watched.isSilent) return
    watched.isSilent = false
    this.#wait(watched, limits.stuckThresholdMs)
  }

  /** Since when an agent has been silent, or undefined when it is not. */
  of(agentId: string): { readonly since: string; readonly silentMs: number } | undefined {
    const watched = this.#watched.get(agentId)
    if (!watched?.isSilent) return undefined
    return { since: watched.lastReportAt, silentMs: Math.round(this.#deps.clock.now() - watched.lastReportMs) }
  }

  #wait(watched: Watched, ms: number): void {
    this.#deps.clock.after(ms, watched.run.signal, () => this.#check(watched))
  }

  #check(watched: Watched): void {
    const { clock, log, events, limits } = this.#deps
    const { run, taskId } = watched
    const silentMs = Math.round(clock.now() - watched.lastReportMs)
    // The agent has reported since the timer was set: wait for the rest of the threshold.
    if (silentMs < limits.stuckThresholdMs) {
      this.#wait(watched, limits.stuckThresholdMs - silentMs)
      return
    }
    watched.isSilent = true
    log.warn('An agent of a task has stopped reporting.', { agent: run.id, task: taskId, silentMs, action: limits.stuckAction })
    events.emit('silent', { agentId: run.id, namespace: run.namespace, taskId, silentMs })
    if (limits.stuckAction === 'end')
      run.violates({
        name: 'stuck',
        message: `The agent reported nothing for ${silentMs} ms, longer than --stuck-threshold allows, and was ended.`,
      })
  }
}
