import { scopeOfResource } from '../model/identity.ts'
import type { Resource } from '../model/resource.ts'
import type { Seen, Status, StatusSources, SystemObservation } from './api.ts'
import type { EngineParts } from './parts.ts'
import { listAll } from './sweep.ts'

export async function observeSystem(parts: EngineParts, sources: StatusSources): Promise<SystemObservation> {
  const contents = await parts.ledger.contents(undefined, 'open')
  const recorded = new Set(contents.resources.map((resource) => resource.id))
  // Resources and processes are listed in parallel, because a service on another host may answer slowly, or not at all.
  const [listed, running] = await Promise.all([
    listAll(parts, { installation: parts.host.installation }, undefined),
    sources.runningProcesses(),
  ])
  const inSystem = ({ resourceId, incarnation }: { resourceId: string; incarnation: string }): Seen => {
    const scopeId = scopeOfResource(resourceId)
    // The registry is asked, too, because it has scopes that were opened after the ledger was read.
    return { scopeId, incarnation, isRecorded: recorded.has(resourceId) || parts.registry.find(scopeId) !== undefined }
  }
  const inLedger = ({ scopeId, incarnation }: { scopeId: string; incarnation: string }): Seen => ({
    scopeId,
    incarnation,
    isRecorded: true,
  })
  const agents = contents.scopes
    .filter(({ kind, state }) => kind === 'agent' && state !== 'closed')
    .map(({ id, incarnation }) => inLedger({ scopeId: id, incarnation }))
  const seen = [
    ...contents.resources.map(inLedger),
    ...listed.found.map(({ found }) => inSystem(found)),
    ...running.map(inSystem),
    ...agents,
  ]
  const isOurs = (await sources.ours?.(seen)) ?? (() => true)

  const open = contents.resources.filter((resource) => isOurs(inLedger(resource)))
  const unrecorded = listed.found.filter(({ found }) => !recorded.has(found.resourceId) && isOurs(inSystem(found)))
  const leaks = [
    ...unrecorded.map(({ kind, found }) => `${kind} ${found.name}`),
    ...listed.failures
      // A failed listing of a remote kind concerns a namespace only when the namespace has a resource of that kind.
      .filter(
        ({ report: { kind } }) => !sources.isPart || !parts.kinds.get(kind)?.isRemote || open.some((resource) => resource.kind === kind),
      )
      .map(({ report }) => `${report.kind}: ${report.error ?? 'the listing failed'}`),
  ]
  const attended = new Set(contents.resources.filter(({ kind }) => parts.kinds.get(kind)?.attends).map(({ id }) => id))
  const processes = running.filter((member) => !attended.has(member.resourceId) && isOurs(inSystem(member)))
  const openAgents = agents.filter(isOurs)
  const rows = (await sources.rows?.()) ?? { agents: 0, messages: 0 }
  const scopesWithOpen = new Set(open.map(({ scopeId }) => scopeId))
  // An agent with an open resource is shown by that resource, so its other leftovers are left out.
  const otherLeftovers = [...((await sources.stuckAgents?.()) ?? [])].flatMap(([id, left]) => (scopesWithOpen.has(id) ? [] : left))
  const agentCount = Math.max(rows.agents, openAgents.length)
  const activeSubscriptions = sources.activeSubscriptions?.() ?? 0
  const status: Status = {
    isClean: open.length + leaks.length + processes.length + agentCount + rows.messages + activeSubscriptions === 0,
    agentCount,
    messageCount: rows.messages,
    runningProcesses: processes.length,
    activeSubscriptions,
    resources: countByKind(open),
    leaks,
    stuck: [...open.filter((resource) => resource.state === 'stuck').map(describe), ...otherLeftovers],
    heldBack: open.filter((resource) => resource.state === 'closing' && resource.error !== undefined).map(describe),
  }
  return { status, processes, open }
}

function countByKind(open: readonly Resource[]): Status['resources'] {
  const counts: Record<string, { held: number; closing: number; stuck: number }> = {}
  for (const { kind, state } of open) {
    counts[kind] ??= { held: 0, closing: 0, stuck: 0 }
    // An intended resource counts as held, because it may exist already.
    counts[kind][state === 'closing' || state === 'stuck' ? state : 'held'] += 1
  }
  return counts
}

function describe(resource: Resource): string {
  return `${resource.kind} ${resource.name}: ${resource.error ?? resource.state}`
}
