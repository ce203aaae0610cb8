import type { Resource } from '../domain/resource.ts'
import type { EngineParts } from './engine.ts'
import { listAll } from './sweep.ts'

/** Is the world clean: counted in the world, not in the ledger alone. */
export interface Status {
  readonly isClean: boolean
  readonly agentCount: number
  readonly messageCount: number
  readonly runningProcesses: number
  readonly activeSubscriptions: number
  readonly resources: Readonly<Record<string, { held: number; closing: number; stuck: number }>>
  /** Present though its scope is closed, or on nobody's books. */
  readonly leaks: readonly string[]
  readonly stuck: readonly string[]
  readonly heldBack: readonly string[]
}

export async function worldStatus(
  parts: EngineParts,
  runningProcesses: (ofKind: (resourceId: string) => boolean) => Promise<number>,
): Promise<Status> {
  const books = await parts.ledger.books()
  const open = books.resources.filter((resource) => resource.state !== 'released')
  const listed = await listAll(parts, { installation: parts.host.installation }, undefined)
  const recorded = new Set(open.map((resource) => resource.id))
  const leaks = [
    ...listed.found.filter(({ found }) => !recorded.has(found.resourceId)).map(({ kind, found }) => `${kind} ${found.name}`),
    ...listed.failures.map(({ report }) => `${report.kind}: ${report.error ?? 'the listing failed'}`),
  ]
  const logs = new Set(open.filter((resource) => resource.kind === 'log').map((resource) => resource.id))
  const processes = await runningProcesses((id) => !logs.has(id))
  const agentCount = books.scopes.filter((scope) => scope.kind === 'agent' && scope.state !== 'closed').length
  return {
    isClean: open.length + leaks.length + processes + agentCount === 0,
    agentCount,
    messageCount: 0,
    runningProcesses: processes,
    activeSubscriptions: 0,
    resources: countByKind(open),
    leaks,
    stuck: open.filter((resource) => resource.state === 'stuck').map(describe),
    heldBack: open.filter((resource) => resource.state === 'closing' && resource.error !== undefined).map(describe),
  }
}

function countByKind(open: readonly Resource[]): Status['resources'] {
  const counts: Record<string, { held: number; closing: number; stuck: number }> = {}
  for (const { kind, state } of open) {
    counts[kind] ??= { held: 0, closing: 0, stuck: 0 }
    // Intended counts as held: it may be in the world already.
    counts[kind][state === 'closing' || state === 'stuck' ? state : 'held'] += 1
  }
  return counts
}

function describe(resource: Resource): string {
  return `${resource.kind} ${resource.name}: ${resource.error ?? resource.state}`
}
