import type { Engine } from '../core/engine/api.ts'
import { scopeOfResource } from '../core/model/identity.ts'
import type { TreeMember } from '../core/ports/process.ts'

/** The host's resources that one agent uses. */
export interface Usage {
  readonly agentId: string
  readonly processes: number
  readonly rssBytes: number
}

interface UsageInput {
  readonly members: readonly TreeMember[]
  readonly living: readonly { readonly id: string }[]
  readonly engine: Pick<Engine, 'inspect' | 'traitsOf'>
  readonly residentBytes: (pid: number) => number
}

/**
 * Returns what each living agent uses. It reads the process listing and the scope registry only: clients poll it every other
 * second, so it must not query the database.
 */
export function usageOf({ members, living, engine, residentBytes }: UsageInput): readonly Usage[] {
  const taken = new Map(living.map(({ id }) => [id, { agentId: id, processes: 0, rssBytes: 0 }]))
  for (const { pid, resourceId } of members) {
    const agentId = scopeOfResource(resourceId)
    const usage = taken.get(agentId)
    const kind = engine.inspect(agentId)?.resources.get(resourceId)?.intent.kind
    if (!usage || (kind !== undefined && engine.traitsOf(kind)?.attends)) continue
    usage.processes += 1
    usage.rssBytes += residentBytes(pid)
  }
  return [...taken.values()].filter(({ agentId, processes }) => processes > 0 || !isRemote(engine, agentId))
}

/**
 * True for an agent outside this host. It may run although no process of it is visible here (G4), so it is left out instead of
 * shown as 0.
 */
function isRemote(engine: UsageInput['engine'], agentId: string): boolean {
  return [...(engine.inspect(agentId)?.resources.values() ?? [])].some(({ intent }) => engine.traitsOf(intent.kind)?.runsAgent)
}
