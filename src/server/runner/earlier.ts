import type { Control } from '../../control.ts'
import { othersRecoveryMs } from '../../core/engine/api.ts'
import { type Agent, activeStatuses, hasEnded } from '../../core/model/agent.ts'
import { isEbbError } from '../../core/model/errors.ts'
import { processTreeKind } from '../../core/ports/process.ts'

/**
 * The namespace of the runner's agents. Only the runner launches agents with this namespace and this form of name, so both together
 * identify agents of an earlier run.
 */
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
 * Agents of an earlier run of this runner, which was killed. This process did not start them, and could not take them back. Their
 * recovery may still be running: an agent whose resources are open in the ledger is not gone (G4).
 */
export class EarlierAgents {
  readonly #control: Control
  readonly #rememberMs: number
  /** The statuses of ended agents whose rows were removed, as long as the agents are remembered. */
  readonly #ended = new Map<string, Ended>()

  constructor(control: Control, rememberMs: number) {
    this.#control = control
    this.#rememberMs = rememberMs
  }

  hasEnded(id: string): boolean {
    return this.#ended.has(id)
  }

  /** The status of an agent of an earlier run. Undefined for an agent that never existed, or that is not remembered any more. */
  async find(id: string): Promise<RunnerStatusNow | undefined> {
    const known = this.#ended.get(id)
    if (known) return known.status
    const { store, engine } = this.#control
    const agent = (await store.find(id))?.agent
    if (agent && !isOfRunner(agent)) return undefined
    if (agent && hasEnded(agent)) return this.remember(agent)
    const resources = await engine.resources(id)
    const trees = resources.filter(({ kind }) => kind === processTreeKind)
    // When the row was removed during the lookup, the status of the agent is remembered.
    if (this.#ended.has(id)) return await this.find(id)
    // An interrupted launch may have resources in the ledger and no row.
    if (!agent && resources.every(({ state }) => state === 'released')) return undefined
    const isAlive = trees.length === 0 || trees.some(({ state }) => state !== 'released')
    return { isAlive, exitCode: agent?.exitCode ?? null, signal: agent?.signal ?? null, uptimeMs: agent ? this.#uptimeMs(agent) : 0 }
  }

  /** Stops an agent; false for an unknown one. Resolves once its processes are proven gone, also when another process recovers them. */
  async stop(id: string, force: boolean): Promise<boolean> {
    const { agents, engine, store } = this.#control
    const seen = await this.find(id)
    if (!seen?.isAlive) return seen !== undefined
    if (!(await store.find(id))) await engine.recover({ waitMs: othersRecoveryMs })
    else
      await agents.stop(id, force ? { force } : {}).catch((error: unknown) => {
        // The row was removed during the call, so the agent has ended.
        if (!isEbbError(error, 'agent_not_found')) throw error
      })
    if ((await this.find(id))?.isAlive) {
      const problem = `The agent ${id} is from an earlier run of this runner and is not proven gone yet; stop it again.`
      throw agents.endedAgents.notReleased(id, 'terminated', problem)
    }
    return true
  }

  /** How many agents are not proven gone, without the `known` ones. */
  async countActive(known: ReadonlySet<string>): Promise<number> {
    const { agents } = await this.#control.store.list({ namespace: runnerNamespace, statuses: activeStatuses })
    return agents.filter((agent) => isOfRunner(agent) && !hasEnded(agent) && !known.has(agent.id)).length
  }

  /** Removes the rows of ended agents. Their statuses are remembered first, for calls that come later. */
  async removeRows(known: ReadonlySet<string>): Promise<void> {
    const { store, agents } = this.#control
    const rows = (await store.list({ namespace: runnerNamespace })).agents
    const ended = rows.filter((agent) => isOfRunner(agent) && hasEnded(agent) && !known.has(agent.id))
    for (const agent of ended) this.remember(agent)
    if (ended.length > 0) await agents.endedAgents.remove(ended)
  }

  forget(nowMs: number): void {
    for (const [id, { atMs }] of this.#ended) if (nowMs - atMs > this.#rememberMs) this.#ended.delete(id)
  }

  remember(agent: Agent): RunnerStatusNow | undefined {
    const { clock } = this.#control
    // Another process recorded the time of the end, so only the wall clock can tell how long ago the agent ended.
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
