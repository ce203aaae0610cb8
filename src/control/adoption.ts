import { sentence } from '../domain/errors.ts'
import { ordinalOfResource } from '../domain/identity.ts'
import type { Resource } from '../domain/resource.ts'
import type { Scope } from '../domain/scope.ts'
import type { BookScope } from '../engine/book.ts'
import type { Engine } from '../engine/engine.ts'
import type { Kept } from '../engine/keep.ts'
import { scopeClosed } from '../engine/race.ts'
import type { AgentRecord, AgentStore } from '../ports/agents.ts'
import type { Books } from '../ports/ledger.ts'
import { type LogSpec, sessionLabel, treeLabel } from '../ports/process.ts'
import type { Agents } from './agents.ts'
import type { Namespaces } from './namespaces.ts'
import type { Owners } from './owners.ts'

export interface AdoptionDeps {
  readonly engine: Engine
  readonly store: AgentStore
  readonly namespaces: Namespaces
  readonly agents: Agents
  readonly owners: Owners
}

/** Agents that outlived their supervisor become ours, each with the task or request that owns it, and go on as if nothing had happened. */
export class Adoption {
  readonly #deps: AdoptionDeps

  constructor(deps: AdoptionDeps) {
    this.#deps = deps
  }

  async adopt(kept: readonly Kept[], books: Books): Promise<ReadonlySet<string>> {
    const { log } = this.#deps.engine.parts
    const adopted = new Set<string>()
    const owned = new Map<string, AgentRecord>()
    for (const one of kept) {
      try {
        for (const id of await this.#adoptOne(one, books, owned)) adopted.add(id)
        if (adopted.has(one.scope.id)) log.info('An agent that outlived its supervisor was adopted.', { scope: one.scope.id })
      } catch (error) {
        log.warn('An agent that outlived its supervisor could not be adopted, and is ended.', {
          scope: one.scope.id,
          error: sentence(error),
        })
      }
    }
    // When all of theirs are there: the time of one may be over, and then they end together.
    for (const record of owned.values()) await this.#resumeOwner(record)
    return adopted
  }

  async #adoptOne({ scope, resources }: Kept, books: Books, owned: Map<string, AgentRecord>): Promise<readonly string[]> {
    const { engine, store, namespaces } = this.#deps
    const { book, ledger, host, log } = engine.parts
    const record = await store.find(scope.id)
    // A launch whose caller never got an answer is no agent.
    if (record?.agent.status !== 'running') return []
    const owner = books.scopes.find(({ id, kind }) => id === scope.parentId && (kind === 'task' || kind === 'request'))
    if (owner && owner.state !== 'open') return []
    const namespace = namespaces.enter(record.agent.namespace)
    await book.find(namespace)?.recorded
    const moved: readonly Moved[] = [
      ...(owner ? [{ ...owner, parentId: namespace, ...labelOf(record) }] : []),
      { ...scope, parentId: owner?.id ?? namespace },
    ]
    await ledger.inherit(moved, host.incarnationId)
    // Nothing comes into what has begun to close meanwhile (G13).
    const above = book.find(owner?.id ?? namespace) ?? book.find(namespace)
    if (above?.state !== 'open') throw scopeClosed(above?.id ?? namespace)
    const news = moved.filter(({ id }) => !book.find(id)).map((one) => ({ ...one, incarnation: host.incarnationId }))
    const held = owner ? books.resources.filter(({ scopeId }) => scopeId === owner.id) : []
    book.load(news, [...held.filter(({ scopeId }) => news.some(({ id }) => id === scopeId)), ...resources])
    for (const { id } of news) await this.#countOn(book.find(id))
    if (owner?.kind === 'request') owned.set(owner.id, record)
    // From here on it is ours, also to end.
    const own = book.find(scope.id)
    try {
      if (own) await this.#resume(record, own, resources)
    } catch (error) {
      log.warn('An agent that was adopted could not be followed, and is ended.', { scope: scope.id, error: sentence(error) })
      await engine.close(scope.id, { trigger: 'recovery' })
    }
    return moved.map(({ id }) => id)
  }

  async #resumeOwner({ agent: { requestId, namespace } }: AgentRecord): Promise<void> {
    if (requestId !== undefined) await this.#deps.owners.resume({ kind: 'request', namespace, id: requestId })
  }

  async #resume(record: AgentRecord, scope: BookScope, resources: readonly Resource[]): Promise<void> {
    const { clock } = this.#deps.engine.parts
    const { signal } = new AbortController()
    for (const entry of scope.entries.values()) entry.handle = await entry.kind.resume?.(entry.ref, { signal, clock })
    await this.#deps.agents.resume(record, scope, handlesOf(scope), pidOf(resources))
  }

  /** Names are never given twice, also not to what comes after what is gone. */
  async #countOn(scope: BookScope | undefined): Promise<void> {
    if (!scope) return
    const known = await this.#deps.engine.parts.ledger.resources(scope.id)
    scope.nextOrdinal = Math.max(0, ...known.map(({ id }) => ordinalOfResource(id))) + 1
  }
}

type Moved = Scope & { readonly parentId: string; readonly label?: string }

function labelOf({ agent }: AgentRecord): { readonly label?: string } {
  const label = agent.taskId ?? agent.requestId
  return label === undefined ? {} : { label }
}

const labels: Readonly<Record<string, string>> = { 'tmux-session': sessionLabel, 'container-run': treeLabel }

/** By the labels that their plan had. */
function handlesOf({ entries }: BookScope): ReadonlyMap<string, unknown> {
  return new Map(
    [...entries.values()].map(({ intent, handle }) => [labels[intent.kind] ?? (intent.spec as LogSpec).stream ?? intent.id, handle]),
  )
}

function pidOf(resources: readonly Resource[]): number | undefined {
  const tree = resources.find(({ kind }) => kind === 'process-tree')
  return (tree?.detail as { readonly pid?: number } | undefined)?.pid
}
