import type { CloseRequest } from '../model/close-request.ts'
import { resourceId as makeResourceId } from '../model/identity.ts'
import type { Report } from '../model/report.ts'
import type { Intent, Proof, Resource, ResourceState } from '../model/resource.ts'
import type { Scope, ScopeState } from '../model/scope.ts'
import type { Kinds, ResourceKind } from '../ports/kind.ts'
import type { NewScope, Outcome } from '../ports/ledger.ts'
import type { ResourceView, ScopeView } from './api.ts'

/**
 * The scopes and resources this process is responsible for, in memory. A close works on the book alone, so that a
 * locked or lost database never delays a kill (G12); the ledger is written beside it.
 */

export interface Entry extends ResourceView {
  readonly intent: Intent
  readonly kind: ResourceKind
  name: string
  ref: unknown
  state: ResourceState
  attempts: number
  proof?: Proof
  error?: string
  handle?: unknown
  /** Its creation has not come back: what cannot be seen now may still appear. */
  isBeingMade: boolean
  /** When an obligation could first not be met: by the wall clock, because others go on with it after a restart. */
  owedSince?: string
  /** Obligations that were not met before it was ended by force. */
  gaveUp: readonly string[]
  /** What its kind had to say about it, for the report. */
  readonly notes: Set<string>
}

export interface OwnedScope extends ScopeView {
  report?: Report
  state: ScopeState
  closeRequest: CloseRequest | undefined
  readonly children: Set<string>
  readonly entries: Map<string, Entry>
  /** Creations under way; a close waits for them, because what is being made cannot be proven absent. */
  readonly creations: Set<Promise<unknown>>
  /** Aborts the creations when the scope starts to close. */
  readonly closing: AbortController
  nextOrdinal: number
}

export class ScopeRegistry {
  readonly #kinds: Kinds
  readonly #scopes = new Map<string, OwnedScope>()

  constructor(kinds: Kinds) {
    this.#kinds = kinds
  }

  find(id: string): OwnedScope | undefined {
    return this.#scopes.get(id)
  }

  scopes(): Iterable<OwnedScope> {
    return this.#scopes.values()
  }

  add(
    scope: NewScope & { readonly label?: string },
    recorded: Promise<void> = Promise.resolve(),
    state: ScopeState = 'open',
    closeRequest?: CloseRequest,
  ): OwnedScope {
    const entries = new Map<string, Entry>()
    const closing = new AbortController()
    const added: OwnedScope = {
      ...scope,
      recorded,
      state,
      closeRequest,
      children: new Set(),
      entries,
      resources: entries,
      creations: new Set(),
      closing,
      signal: closing.signal,
      nextOrdinal: 1,
    }
    this.#scopes.set(scope.id, added)
    if (scope.parentId !== undefined) this.#scopes.get(scope.parentId)?.children.add(scope.id)
    return added
  }

  /** Takes over what the ledger holds of a dead incarnation. */
  load(scopes: readonly (Scope & { readonly label?: string })[], resources: readonly Resource[]): void {
    for (const scope of scopes) this.add(scope, undefined, scope.state, scope.closeRequest)
    for (const scope of scopes) if (scope.parentId) this.#scopes.get(scope.parentId)?.children.add(scope.id)
    for (const resource of resources) {
      const scope = this.#scopes.get(resource.scopeId)
      if (!scope || resource.state === 'released') continue
      const entry = this.enter(scope, resource)
      entry.state = resource.state
      entry.attempts = resource.attempts
      if (resource.owedSince !== undefined) entry.owedSince = resource.owedSince
    }
  }

  enter(scope: OwnedScope, intent: Intent): Entry {
    const kind = this.kind(intent.kind)
    const ref = kind.name(intent)
    const entry: Entry = {
      intent,
      kind,
      ref,
      name: kind.describe(ref),
      state: 'intended',
      attempts: 0,
      isBeingMade: false,
      gaveUp: [],
      notes: new Set(),
    }
    scope.entries.set(intent.id, entry)
    return entry
  }

  kind(name: string): ResourceKind {
    return this.#kinds.get(name) ?? unsupportedKind(name)
  }

  /** As it is this moment: a close works here, and writes to the ledger at its end. */
  current(resource: Resource): Resource {
    const scope = this.#scopes.get(resource.scopeId)
    const entry = scope?.entries.get(resource.id)
    if (!scope || !entry || resource.state === 'released') return resource
    const { error: earlier, ...rest } = resource
    const { attempts, proof } = entry
    const state = scope.state === 'open' ? entry.state : closingState(entry)
    const error = entry.error ?? (state === resource.state ? earlier : undefined)
    const isOver = state === 'released' && proof
    return { ...rest, state, attempts, ...(isOver && { proof, releasedAt: proof.at }), ...(error !== undefined && { error }) }
  }

  nextId(scope: OwnedScope): string {
    return makeResourceId(scope.id, scope.nextOrdinal++)
  }

  /** The scope and everything below it, parents first. */
  tree(id: string): readonly OwnedScope[] {
    const scope = this.#scopes.get(id)
    if (!scope) return []
    return [scope, ...[...scope.children].flatMap((child) => this.tree(child))]
  }

  /** For log lines: the scope, and the request or task that it is or lies in, by the name that clients know. */
  placeOf(scope: OwnedScope): Readonly<Record<string, string>> {
    for (let above: OwnedScope | undefined = scope; above; above = this.find(above.parentId ?? ''))
      if ((above.kind === 'request' || above.kind === 'task') && above.label !== undefined)
        return { scope: scope.id, [above.kind]: above.label }
    return { scope: scope.id }
  }

  /** The name of the namespace that a scope lies in. A host lies in none. */
  namespaceOf(scope: OwnedScope): string | undefined {
    if (scope.kind === 'namespace') return scope.label
    const parent = scope.parentId === undefined ? undefined : this.find(scope.parentId)
    return parent && this.namespaceOf(parent)
  }

  forget(id: string): void {
    for (const scope of this.tree(id)) {
      this.#scopes.delete(scope.id)
      if (scope.parentId !== undefined) this.#scopes.get(scope.parentId)?.children.delete(scope.id)
    }
  }
}

/** A resource of a kind that this version does not know stays on the books as unknown: never absent, never touched (G4). */
function unsupportedKind(kind: string): ResourceKind {
  const refuse = (): never => {
    throw new Error(`This version of Ebb does not know resources of kind "${kind}".`)
  }
  return {
    kind,
    name: (intent) => intent.id,
    describe: (ref) => String(ref),
    steps: () => [],
    create: async () => refuse(),
    observe: async () => ({ is: 'unknown', reason: `this version of Ebb does not know the kind "${kind}"` }),
    release: async () => refuse(),
    gone: async () => refuse(),
    list: async function* () {},
  }
}

/** Of something in a scope that is closing: what waits for its turn is on its way, too. */
export function closingState({ state }: Entry): Outcome['state'] {
  return state === 'released' || state === 'stuck' ? state : 'closing'
}
