import { scopeOfResource } from '../model/identity.ts'
import { attendedKinds, type Resource } from '../model/resource.ts'
import type { Seen, Status, StatusSources, SystemObservation } from './api.ts'
import type { EngineParts } from './parts.ts'
import { listAll } from './sweep.ts'

export async function observeSystem(parts: EngineParts, sources: StatusSources): Promise<SystemObservation> {
  const contents = await parts.ledger.contents(undefined, 'open')
  const recorded = new Set(contents.resources.map((resource) => resource.id))
  // Side by side: what is elsewhere may take its time to answer, or to say nothing.
  const [listed, running] = await Promise.all([
    listAll(parts, { installation: parts.host.installation }, undefined),
    sources.runningProcesses(),
  ])
  const inWorld = ({ resourceId, incarnation }: { resourceId: string; incarnation: string }): Seen => {
    const scopeId = scopeOfResource(resourceId)
    // What was launched since the books were read is in ours.
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
  const seen = [...contents.resources.map(inLedger), ...listed.found.map(({ found }) => inWorld(found)), ...running.map(inWorld), ...agents]
  const isOurs = (await sources.ours?.(seen)) ?? (() => true)

  const open = contents.resources.filter((resource) => isOurs(inLedger(resource)))
  const unrecorded = listed.found.filter(({ found }) => !recorded.has(found.resourceId) && isOurs(inWorld(found)))
  const leaks = [
    ...unrecorded.map(({ kind, found }) => `${kind} ${found.name}`),
    ...listed.failures
      // Where none of a namespace's is, an answer that does not come from there is not its business.
      .filter(({ report: { kind } }) => !sources.isPart || !parts.kinds.get(kind)?.isRemote || open.some((one) => one.kind === kind))
      .map(({ report }) => `${report.kind}: ${report.error ?? 'the listing failed'}`),
  ]
  const attended = new Set(contents.resources.filter(({ kind }) => attendedKinds.has(kind)).map(({ id }) => id))
  const processes = running.filter((member) => !attended.has(member.resourceId) && isOurs(inWorld(member)))
  const openAgents = agents.filter(isOurs)
  const rows = (await sources.rows?.()) ?? { agents: 0, messages: 0 }
  const named = new Set(open.map(({ scopeId }) => scopeId))
  const beyond = [...((await sources.stuckAgents?.()) ?? [])].flatMap(([id, left]) => (named.has(id) ? [] : left))
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
    stuck: [...open.filter((resource) => resource.state === 'stuck').map(describe), ...beyond],
    heldBack: open.filter((resource) => resource.state === 'closing' && resource.error !== undefined).map(describe),
  }
  return { status, processes, open }
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
