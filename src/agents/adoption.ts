import type { Engine, Kept } from '../core/engine/api.ts'
import { sentence } from '../core/model/errors.ts'
import type { Resource } from '../core/model/resource.ts'
import type { AgentRecord, AgentStore } from '../core/ports/agents.ts'
import { isOfKind } from '../core/ports/kind.ts'
import type { LedgerContents } from '../core/ports/ledger.ts'
import type { Log } from '../core/ports/log.ts'
import { processTreeKind } from '../core/ports/process.ts'
import type { Agents } from './agents.ts'
import type { Namespaces } from './namespaces.ts'
import type { Owners } from './owners.ts'

export interface AdoptionDeps {
  readonly engine: Engine
  readonly log: Log
  readonly store: AgentStore
  readonly namespaces: Namespaces
  readonly agents: Agents
  readonly owners: Owners
}

/** Adopts agents that outlived their supervisor, together with the task or request that owns them. */
export class Adoption {
  readonly #deps: AdoptionDeps

  constructor(deps: AdoptionDeps) {
    this.#deps = deps
  }

  async adopt(kept: readonly Kept[], contents: LedgerContents): Promise<ReadonlySet<string>> {
    const { log } = this.#deps
    const adopted = new Set<string>()
    const owned = new Map<string, AgentRecord>()
    for (const agent of kept) {
      try {
        for (const id of await this.#adoptOne(agent, contents, owned)) adopted.add(id)
        if (adopted.has(agent.scope.id)) log.info('An agent that outlived its supervisor was adopted.', { scope: agent.scope.id })
      } catch (error) {
        log.warn('An agent that outlived its supervisor could not be adopted, and is ended.', {
          scope: agent.scope.id,
          error: sentence(error),
        })
      }
    }
    // An owner's agents are all adopted before the owner is resumed. If the owner's deadline has passed, its agents must end together.
    for (const record of owned.values()) await this.#resumeOwner(record)
    return adopted
  }

  async #adoptOne({ scope, resources }: Kept, contents: LedgerContents, owned: Map<string, AgentRecord>): Promise<readonly string[]> {
    const { engine, store, namespaces, log } = this.#deps
    const record = await store.find(scope.id)
    // A launch that never answered its caller is not adopted.
    if (record?.agent.status !== 'running') return []
    const owner = contents.scopes.find(({ id, kind }) => id === scope.parentId && (kind === 'task' || kind === 'request'))
    if (owner && owner.state !== 'open') return []
    const namespace = namespaces.enter(record.agent.namespace)
    const scopes = [
      ...(owner ? [{ ...owner, parentId: namespace, ...labelOf(record) }] : []),
      { ...scope, parentId: owner?.id ?? namespace },
    ]
    const held = owner ? contents.resources.filter(({ scopeId }) => scopeId === owner.id) : []
    const adopted = await engine.adopt({ scopes, resources: [...held, ...resources] })
    if (owner?.kind === 'request') owned.set(owner.id, record)
    // From here on this process owns the agent, so it must end the agent if its output cannot be followed.
    try {
      await adopted.resume()
      await this.#deps.agents.resume(record, adopted.scope, pidOf(resources))
    } catch (error) {
      log.warn('An agent that was adopted could not be followed, and is ended.', { scope: scope.id, error: sentence(error) })
      await engine.close(scope.id, { trigger: 'recovery' })
    }
    return scopes.map(({ id }) => id)
  }

  async #resumeOwner({ agent: { requestId, namespace } }: AgentRecord): Promise<void> {
    if (requestId !== undefined) await this.#deps.owners.resume({ kind: 'request', namespace, id: requestId })
  }
}

function labelOf({ agent }: AgentRecord): { readonly label?: string } {
  const label = agent.taskId ?? agent.requestId
  return label === undefined ? {} : { label }
}

function pidOf(resources: readonly Resource[]): number | undefined {
  return resources.find((resource) => isOfKind(processTreeKind, resource))?.detail?.pid
}
