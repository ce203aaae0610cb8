import type { CloseRequest } from '../model/close-request.ts'
import { resourceId as makeResourceId } from '../model/identity.ts'
import type { Report } from '../model/report.ts'
import type { Intent, Proof, Resource, ResourceState } from '../model/resource.ts'
import type { Scope, ScopeState } from '../model/scope.ts'
import { Handles } from '../ports/handles.ts'
import { type Kinds, type KindTypes, kindName, type ResourceKind } from '../ports/kind.ts'
import type { NewScope, Outcome } from '../ports/ledger.ts'
import type { ResourceView, ScopeView } from './api.ts'

/**
 * The scopes and resources of this process, in memory. A close works on the registry alone, so that a locked or lost database never delays
 * a kill (G12). The ledger is written at the same time.
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
  /** True while the resource is being created. A resource that is absent now may still appear. */
  isBeingCreated: boolean
  /** When an obligation first could not be met. By the wall clock, because a later process continues with it. */
  owedSince?: string
  /** Obligations that were given up by force. */
  gaveUp: readonly string[]
  /** Notes about the resource from its kind, for the report. */
  readonly notes: Set<string>
}

export interface OwnedScope extends ScopeView {
  /** False until the ledger has confirmed that it has the scope. */
  isRecorded: boolean
  /** Settles when every write of the scope's record that has begun has ended. It never rejects; the writer gets the error. */
  recording: Promise<unknown>
  report?: Report
  state: ScopeState
  closeRequest: CloseRequest | undefined
  readonly children: Set<string>
  readonly entries: Map<string, Entry>
  /** Running creations. A close waits for them, because a resource that is being created cannot be proven absent. */
  readonly creations: Set<Promise<unknown>>
  /** Aborts the creations when the scope begins to close. */
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
    record: { readonly isRecorded: boolean; readonly recording?: Promise<unknown> },
    state: ScopeState = 'open',
    closeRequest?: CloseRequest,
  ): OwnedScope {
    const entries = new Map<string, Entry>()
    const closing = new AbortController()
    const added: OwnedScope = {
      ...scope,
      recording: Promise.resolve(),
      ...record,
      state,
      closeRequest,
      children: new Set(),
      entries,
      resources: entries,
      handles: new Handles(),
      creations: new Set(),
      closing,
      signal: closing.signal,
      nextOrdinal: 1,
    }
    this.#scopes.set(scope.id, added)
    if (scope.parentId !== undefined) this.#scopes.get(scope.parentId)?.children.add(scope.id)
    return added
  }

  /** Adds scopes and resources from the ledger: those of a dead incarnation, or adopted ones. */
  load(scopes: readonly (Scope & { readonly label?: string })[], resources: readonly Resource[]): void {
    for (const scope of scopes) this.add(scope, { isRecorded: true }, scope.state, scope.closeRequest)
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
      isBeingCreated: false,
      gaveUp: [],
      notes: new Set(),
    }
    scope.entries.set(intent.id, entry)
    return entry
  }

  kind(name: string): ResourceKind {
    return this.#kinds.get(name) ?? unsupportedKind(name)
  }

  /** The ledger's resource with its current state. A close changes the registry first and writes to the ledger at its end. */
  current(resource: Resource): Resource {
    const scope = this.#scopes.get(resource.scopeId)
    const entry = scope?.entries.get(resource.id)
    if (!scope || !entry || resource.state === 'released') return resource
    const { error: earlier, ...rest } = resource
    const { attempts, proof } = entry
    const state = scope.state === 'open' ? entry.state : closingState(entry)
    const error = entry.error ?? (state === resource.state ? earlier : undefined)
    const isProven = state === 'released' && proof
    return { ...rest, state, attempts, ...(isProven && { proof, releasedAt: proof.at }), ...(error !== undefined && { error }) }
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

  /** Log fields: the scope, and the request or task that contains it, by the name that clients know. */
  placeOf(scope: OwnedScope): Readonly<Record<string, string>> {
    for (let above: OwnedScope | undefined = scope; above; above = this.find(above.parentId ?? ''))
      if ((above.kind === 'request' || above.kind === 'task') && above.label !== undefined)
        return { scope: scope.id, [above.kind]: above.label }
    return { scope: scope.id }
  }

  /** The name of the namespace that contains a scope. A host is in none. */
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

/**
 * A resource of a kind that this version does not know stays in the ledger as unknown: it is never called absent, and never touched (G4).
 */
function unsupportedKind(kind: string): ResourceKind {
  const refuse = (): never => {
    throw new Error(`This version of Ebb does not know resources of kind "${kind}".`)
  }
  return {
    kind: kindName<KindTypes>(kind),
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

/** The state to record for a resource of a closing scope. A resource that waits for its release is closing, too. */
export function closingState({ state }: Entry): Outcome['state'] {
  return state === 'released' || state === 'stuck' ? state : 'closing'
}
