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
  /** One for each archive that is still there. */
  readonly errors: readonly string[]
}

/** What is left of an agent that has ended: its row, its messages and its archive. */
export class EndedAgents {
  readonly #deps: EndedAgentsDeps

  constructor(deps: EndedAgentsDeps) {
    this.#deps = deps
  }

  /** Its archived logs that are there now, in the order stdout, progress, findings, and then the others. */
  archivedFiles(id: string): Promise<readonly ArchivedFile[]> {
    return this.#deps.archives.files(id)
  }

  /** Its row and its messages stay. Says why its archive does, if it does. */
  async dropArchive(id: string): Promise<string | undefined> {
    return (await removeArchives(this.#deps.archives, [id])).get(id)
  }

  /** Rows and archives. What keeps its archive keeps its row, stuck, and the others go all the same. */
  async remove(agents: readonly Agent[]): Promise<Removed> {
    const { engine, archives, store, events } = this.#deps
    const ids = agents.map(({ id }) => id)
    if (ids.length > 0) await engine.condemn(ids)
    const left = await removeArchives(archives, ids)
    const gone = await store.remove(ids.filter((id) => !left.has(id)))
    // Only what this call removed: another one may have been faster, and has told of it.
    for (const { id, namespace } of agents) if (gone.ids.has(id)) events.emit('deleted', { agentId: id, namespace })
    for (const agent of agents) if (left.has(agent.id)) await this.#stick(agent)
    return { agents: gone.agents, messages: gone.messages, errors: [...left.values()] }
  }

  async #stick({ id, namespace, status }: Agent): Promise<void> {
    if (status === 'stuck') return
    await this.#deps.store.change(id, { status: 'stuck' })
    this.#deps.events.emit('status', { agentId: id, namespace, status: 'stuck' })
  }

  /** For what went wrong outside of a close: told in the same way. */
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
