import type { Engine } from '../core/engine/api.ts'
import { scopeOfResource } from '../core/model/identity.ts'
import { attendedKinds, bodyKinds } from '../core/model/resource.ts'
import type { TreeMember } from '../core/ports/process.ts'

/** What an agent takes of this host. */
export interface Usage {
  readonly agentId: string
  readonly processes: number
  readonly rssBytes: number
}

interface Look {
  readonly members: readonly TreeMember[]
  readonly living: readonly { readonly id: string }[]
  readonly engine: Pick<Engine, 'inspect'>
  readonly residentBytes: (pid: number) => number
}

/** From the look and our own book alone: nobody asks the database for something that is asked every other second. */
export function usageOf({ members, living, engine, residentBytes }: Look): readonly Usage[] {
  const taken = new Map(living.map(({ id }) => [id, { agentId: id, processes: 0, rssBytes: 0 }]))
  for (const { pid, resourceId } of members) {
    const agentId = scopeOfResource(resourceId)
    const usage = taken.get(agentId)
    const kind = engine.inspect(agentId)?.resources.get(resourceId)?.intent.kind
    if (!usage || (kind !== undefined && attendedKinds.has(kind))) continue
    usage.processes += 1
    usage.rssBytes += residentBytes(pid)
  }
  return [...taken.values()].filter(({ agentId, processes }) => processes > 0 || !isRemote(engine, agentId))
}

/** Nothing seen of what runs elsewhere says nothing about it (G4). */
function isRemote(engine: Look['engine'], agentId: string): boolean {
  return [...(engine.inspect(agentId)?.resources.values() ?? [])].some(({ intent }) => bodyKinds.has(intent.kind))
}
