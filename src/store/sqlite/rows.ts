import type { CloseRequest } from '../../core/model/close-request.ts'
import type { Intent, Proof, Resource, ResourceState } from '../../core/model/resource.ts'
import type { Scope, ScopeKind, ScopeState } from '../../core/model/scope.ts'
import type { IncarnationRecord } from '../../core/ports/ledger.ts'

/** Converts rows of the ledger's tables into records. */
export type Row = Record<string, unknown>

const text = (value: unknown): string => String(value)
const optional = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
const json = (value: unknown): unknown => (typeof value === 'string' ? JSON.parse(value) : undefined)

export function toIncarnation(row: Row): IncarnationRecord {
  return {
    id: text(row.id),
    installation: text(row.installation),
    identity: { bootId: text(row.boot_id), pidNamespace: text(row.pid_namespace), pid: Number(row.pid), startTime: text(row.start_time) },
    role: row.role === 'server' ? 'server' : 'command',
    address: optional(row.address),
    claimedBy: optional(row.claimed_by),
    registeredAt: text(row.registered_at),
  }
}

export function toScope(row: Row): Scope {
  return {
    id: text(row.id),
    kind: text(row.kind) as ScopeKind,
    parentId: optional(row.parent_id),
    incarnation: text(row.incarnation),
    state: text(row.state) as ScopeState,
    closeRequest: json(row.wish) as CloseRequest | undefined,
  }
}

export function toResource(row: Row): Resource {
  const detail = json(row.detail)
  const proof = json(row.proof) as Proof | undefined
  const heldAt = optional(row.held_at)
  const releasedAt = optional(row.released_at)
  const error = optional(row.error)
  const owedSince = optional(row.owed_since)
  return {
    id: text(row.id),
    scopeId: text(row.scope_id),
    incarnation: text(row.incarnation),
    kind: text(row.kind),
    name: text(row.name),
    spec: json(row.spec),
    dependsOn: json(row.depends_on) as string[],
    onLoss: text(row.on_loss) as Intent['onLoss'],
    state: text(row.state) as ResourceState,
    attempts: Number(row.attempts),
    intendedAt: text(row.intended_at),
    ...(detail !== undefined && { detail }),
    ...(heldAt !== undefined && { heldAt }),
    ...(releasedAt !== undefined && { releasedAt }),
    ...(proof !== undefined && { proof }),
    ...(error !== undefined && { error }),
    ...(owedSince !== undefined && { owedSince }),
  }
}
