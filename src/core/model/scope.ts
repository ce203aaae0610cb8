import type { CloseRequest } from './close-request.ts'

/** The owner of resources, in a tree: host → namespace → request or task → agent. */
export type ScopeKind = 'host' | 'namespace' | 'request' | 'task' | 'agent'

export type ScopeState = 'open' | 'closing' | 'closed'

export interface Scope {
  readonly id: string
  readonly kind: ScopeKind
  readonly parentId: string | undefined
  readonly incarnation: string
  readonly state: ScopeState
  readonly closeRequest: CloseRequest | undefined
}
