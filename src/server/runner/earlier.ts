import type { Control } from '../../control.ts'
import { othersRecoveryMs } from '../../core/engine/api.ts'
import { type Agent, activeStatuses, hasEnded } from '../../core/model/agent.ts'
import { EbbError, isEbbError } from '../../core/model/errors.ts'

/** No other way to launch gives an agent this namespace and such a name: by both, agents of an earlier life are known. */
export const runnerNamespace = 'runner'

const namePrefix = 'runner-'

export function nameOf(id: string): string {
  return `${namePrefix}${id}`
}

function isOfRunner({ id, name, namespace }: Agent): boolean {
  return namespace === runnerNamespace && name === nameOf(id)
}

export interface RunnerStatusNow {
  readonly isAlive: boolean
  readonly exitCode: number | null
  readonly signal: string | null
  readonly uptimeMs: number
}

interface Ended {
  readonly status: RunnerStatusNow
  readonly atMs: number
}

/**
 * Agents that this process did not start, or could not take back: of a runner that was killed, and whose recovery may not be
 * through. What is on the books is not gone, whoever asks (G4).
 */
export class EarlierAgents {
  readonly #control: Control
  readonly #rememberMs: number
  /** Their rows are gone, and their time is not over. */
  readonly #ended = new Map<string, Ended>()

  constructor(control: Control, rememberMs: number) {
    this.#control = control
    this.#rememberMs = rememberMs
  }

  hasEnded(id: string): boolean {
    return this.#ended.has(id)
  }

  /** Nothing for one that never was, or has been over for its time. */
  async find(id: string): Promise<RunnerStatusNow | undefined> {
    const known = this.#ended.get(id)
    if (known) return known.status
    const { store, engine } = this.#control
    const agent = (await store.find(id))?.agent
    if (agent && !isOfRunner(agent)) return undefined
    if (agent && hasEnded(agent)) return this.remember(agent)
    const resources = await engine.resources(id)
    const trees = resources.filter(({ kind }) => kind === 'process-tree')
    // Its row was removed while we looked.
    if (this.#ended.has(id)) return await this.find(id)
    // A launch that was cut short may be on the books before its row.
    if (!agent && resources.every(({ state }) => state === 'released')) return undefined
    const isAlive = trees.length === 0 || trees.some(({ state }) => state !== 'released')
    return { isAlive, exitCode: agent?.exitCode ?? null, signal: agent?.signal ?? null, uptimeMs: agent ? this.#uptimeMs(agent) : 0 }
  }

  /** False for one that never was. Resolves once its processes are proven gone, by whoever recovers it. */
  async stop(id: string, force: boolean): Promise<boolean> {
    const { agents, engine, store } = this.#control
    const seen = await this.find(id)
    if (!seen?.isAlive) return seen !== undefined
    if (!(await store.find(id))) await engine.recover({ waitMs: othersRecoveryMs })
    else
      await agents.stop(id, force ? { force } : {}).catch((error: unknown) => {
        // Its row went while we waited: then it is over.
        if (!isEbbError(error, 'agent_not_found')) throw error
      })
    if ((await this.find(id))?.isAlive) {
      const problem = `The agent ${id} is of an earlier life of this runner, and is not proven gone; ask again.`
      throw agents.endedAgents.notReleased(id, 'terminated', problem)
    }
    return true
  }

  /** Those that are not proven gone, without the `known`. */
  async countActive(known: ReadonlySet<string>): Promise<number> {
    const { agents } = await this.#control.store.list({ namespace: runnerNamespace, statuses: activeStatuses })
    return agents.filter((agent) => isOfRunner(agent) && !hasEnded(agent) && !known.has(agent.id)).length
  }

  /** Removes the rows of those that are over; what of them may still be asked for is remembered first. */
  async removeRows(known: ReadonlySet<string>): Promise<void> {
    const { store, agents } = this.#control
    const rows = (await store.list({ namespace: runnerNamespace })).agents
    const over = rows.filter((agent) => isOfRunner(agent) && hasEnded(agent) && !known.has(agent.id))
    for (const agent of over) this.remember(agent)
    if (over.length > 0) await agents.endedAgents.remove(over)
  }

  forget(nowMs: number): void {
    for (const [id, { atMs }] of this.#ended) if (nowMs - atMs > this.#rememberMs) this.#ended.delete(id)
  }

  remember(agent: Agent): RunnerStatusNow | undefined {
    const { clock } = this.#control
    // Its end was written by another process, so only the wall clock can tell how long that is ago.
    const agoMs = Math.max(0, Date.parse(clock.wall()) - Date.parse(agent.completedAt ?? ''))
    if (!(agoMs <= this.#rememberMs)) return undefined
    const status = { isAlive: false, exitCode: agent.exitCode ?? null, signal: agent.signal ?? null, uptimeMs: this.#uptimeMs(agent) }
    this.#ended.set(agent.id, { status, atMs: clock.now() - agoMs })
    return status
  }

  #uptimeMs({ startedAt, createdAt, completedAt }: Agent): number {
    return Math.max(0, Date.parse(completedAt ?? this.#control.clock.wall()) - Date.parse(startedAt ?? createdAt))
  }
}

export function notReleased(id: string, report: { readonly errors: readonly string[] }): EbbError {
  return new EbbError('not_released', `The agent ${id} could not be released: ${report.errors.join('; ')}`, { details: report })
}
