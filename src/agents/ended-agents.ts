import type { Engine } from '../core/engine/api.ts'
import type { Agent } from '../core/model/agent.ts'
import type { Trigger } from '../core/model/close-request.ts'
import { EbbError } from '../core/model/errors.ts'
import type { Report } from '../core/model/report.ts'
import type { AgentStore } from '../core/ports/agents.ts'
import type { ArchivedFile, Archives } from '../core/ports/archives.ts'
import type { Clock } from '../core/ports/clock.ts'
import { removeArchives } from './endings.ts'
import type { Events } from './events.ts'

export interface EndedAgentsDeps {
  readonly engine: Pick<Engine, 'condemn'>
  readonly store: AgentStore
  readonly archives: Archives
  readonly events: Events
  readonly clock: Clock
}

export interface Removed {
  readonly agents: number
  readonly messages: number
  /** One text for each archive that could not be deleted: the archive and the reason. */
  readonly errors: readonly string[]
}

/** Deletes the records of agents that have ended: rows, messages and archives. */
export class EndedAgents {
  readonly #deps: EndedAgentsDeps

  constructor(deps: EndedAgentsDeps) {
    this.#deps = deps
  }

  /** The archived logs of an agent that exist now: stdout, progress, findings, then the others. */
  archivedFiles(id: string): Promise<readonly ArchivedFile[]> {
    return this.#deps.archives.files(id)
  }

  /** Deletes an agent's archive, and keeps its row and messages. Returns the reason when the archive could not be deleted. */
  async dropArchive(id: string): Promise<string | undefined> {
    return (await removeArchives(this.#deps.archives, [id])).get(id)
  }

  /** Deletes rows and archives. An agent whose archive cannot be deleted keeps its row, as `stuck`; the others are deleted. */
  async remove(agents: readonly Agent[]): Promise<Removed> {
    const { engine, archives, store, events } = this.#deps
    const ids = agents.map(({ id }) => id)
    if (ids.length > 0) await engine.condemn(ids)
    const failures = await removeArchives(archives, ids)
    const gone = await store.remove(ids.filter((id) => !failures.has(id)))
    // The event is emitted only for rows that this call removed. A concurrent call emits it for the rows that it removed itself.
    for (const { id, namespace } of agents) if (gone.ids.has(id)) events.emit('deleted', { agentId: id, namespace })
    for (const agent of agents) if (failures.has(agent.id)) await this.#markStuck(agent)
    return { agents: gone.agents, messages: gone.messages, errors: [...failures.values()] }
  }

  async #markStuck({ id, namespace, status }: Agent): Promise<void> {
    if (status === 'stuck') return
    await this.#deps.store.change(id, { status: 'stuck' })
    this.#deps.events.emit('status', { agentId: id, namespace, status: 'stuck' })
  }

  /** The error for an ended agent that cannot be deleted. Its details have the shape of the report of a failed close. */
  notReleased(id: string, trigger: Trigger, message: string): EbbError {
    const details: Report = {
      success: false,
      trigger,
      scope: { kind: 'agent', id },
      startedAt: this.#deps.clock.wall(),
      duration: 0,
      cleanedAgentsCount: 0,
      cleanedMessagesCount: 0,
      resources: [],
      errors: [message],
      gaveUp: [],
    }
    return new EbbError('not_released', message, { details })
  }
}
