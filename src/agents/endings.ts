import { activeStatuses, endingOf, hasEnded, type LastDays } from '../core/model/agent.ts'
import { sentence } from '../core/model/errors.ts'
import type { AgentEnd, AgentRecord, AgentStore } from '../core/ports/agents.ts'
import type { Archives } from '../core/ports/archives.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Exit } from '../core/ports/effects.ts'
import type { EndedScope, Endings, UncleanScope } from '../core/ports/endings.ts'

/** The interface of an agent that runs under this process, for `AgentEndings`. */
export interface LivingAgent {
  /** Settles once the agent's exit is known, or shortly after its end was proven. */
  lastDays(): Promise<LastDays>
  settled(scope: EndedScope, end: AgentEnd | undefined): void
  notReleased(scope: UncleanScope): void
}

export interface EndingsDeps {
  readonly agents: AgentStore
  readonly clock: Clock
  readonly archives: Pick<Archives, 'remove'>
  /** True when the incarnation is proven dead. */
  readonly isDead: (incarnation: string) => boolean
}

/** Decides how agents have ended: after the proof and before the ledger's write. Also for agents of dead supervisors. */
export class AgentEndings implements Endings {
  readonly living = new Map<string, LivingAgent>()
  readonly #deps: EndingsDeps

  constructor(deps: EndingsDeps) {
    this.#deps = deps
  }

  async clear(scopes: readonly EndedScope[]): Promise<{ left: ReadonlyMap<string, string>; messagesGone: number }> {
    const agents = scopes.filter(({ kind }) => kind === 'agent')
    // All archives are deleted first, because the database may not answer. An agent that is to be deleted may have an archive: its
    // logs may have been archived before the deletion was requested. After a crash the scope is still closing, and this step is
    // repeated.
    const left = await removeArchives(
      this.#deps.archives,
      agents.flatMap(({ id, dropsLogs }) => (dropsLogs ? [id] : [])),
    )
    return { left, messagesGone: await this.#trim(agents.filter(({ id, isForgotten }) => isForgotten && !left.has(id))) }
  }

  async #trim(scopes: readonly EndedScope[]): Promise<number> {
    let gone = 0
    try {
      for (const { id } of scopes) gone += await this.#deps.agents.trim(id)
    } catch {
      // Swallowed: messages that a locked database keeps are deleted later, with the rows.
    }
    return gone
  }

  async prepare(scopes: readonly EndedScope[]): Promise<{ ended: readonly AgentEnd[]; messagesGoing: number }> {
    const agents = scopes.filter(({ kind }) => kind === 'agent')
    const found = await Promise.all(agents.map(async (scope) => ({ scope, record: await this.#deps.agents.find(scope.id) })))
    const known = found.flatMap(({ scope, record }) => (record ? [{ scope, record }] : []))
    const going = known.filter(({ scope }) => scope.isForgotten)
    // The ends are determined in parallel, because each may wait for the exit of its agent.
    const ended = known.filter(({ record }) => !hasEnded(record.agent)).map(({ scope, record }) => this.#end(scope, record))
    return {
      ended: await Promise.all(ended),
      messagesGoing: going.reduce((sum, { record }) => sum + record.agent.session.messageCount, 0),
    }
  }

  async #end(scope: EndedScope, record: AgentRecord): Promise<AgentEnd> {
    const days = (await this.living.get(scope.id)?.lastDays()) ?? orphanDays(record)
    return { ...this.#endOf(scope.id, days), report: scope.report }
  }

  #endOf(agentId: string, days: LastDays): Omit<AgentEnd, 'report'> {
    return { agentId, ...endingOf(days), ...(days.exit && { exit: days.exit }), completedAt: this.#deps.clock.wall() }
  }

  async exited(agentId: string, exit: Exit): Promise<void> {
    // Without code and signal the exit is unknown: the agent counts as lost with its supervisor.
    if (exit.code !== null || exit.signal !== null) await this.#deps.agents.change(agentId, { status: 'stopping', exit })
  }

  async lost(recordedIncarnations: ReadonlySet<string>): Promise<readonly Omit<AgentEnd, 'report'>[]> {
    const { agents, isDead } = this.#deps
    const { agents: open } = await agents.list({ statuses: activeStatuses, exceptIncarnations: recordedIncarnations })
    const records = await Promise.all(open.filter((agent) => !hasEnded(agent)).map(({ id }) => agents.find(id)))
    return (
      records
        .filter((record) => record !== undefined)
        // A supervisor may have registered since the ledger was read. Only agents of dead supervisors are ended here.
        .filter(({ incarnation }) => isDead(incarnation))
        .map(({ agent }) => this.#endOf(agent.id, { isOrphan: true, wasStopped: false }))
    )
  }

  settled(scopes: readonly EndedScope[], ended: readonly AgentEnd[], left: readonly UncleanScope[]): void {
    const ends = new Map(ended.map((end) => [end.agentId, end]))
    for (const scope of scopes) this.living.get(scope.id)?.settled(scope, ends.get(scope.id))
    for (const scope of left) this.living.get(scope.id)?.notReleased(scope)
  }
}

/** How many archives are deleted in parallel. */
const removedAtOnce = 16

/** Deletes the archives of several agents. Returns the failures by agent id, worded as in reports. */
export async function removeArchives(archives: Pick<Archives, 'remove'>, agentIds: readonly string[]): Promise<Map<string, string>> {
  const left = new Map<string, string>()
  for (let at = 0; at < agentIds.length; at += removedAtOnce) {
    const some = agentIds.slice(at, at + removedAtOnce)
    const ends = await Promise.allSettled(some.map((id) => archives.remove(id)))
    for (const [index, id] of some.entries()) {
      const end = ends[index]
      if (end?.status === 'rejected') left.set(id, `archive of agent ${id}: ${sentence(end.reason)}`)
    }
  }
  return left
}

/** The state of an agent whose supervisor is dead, as its row records it. */
function orphanDays({ agent, result }: AgentRecord): LastDays {
  const hasExited = agent.exitCode !== undefined || agent.signal !== undefined
  return {
    isOrphan: true,
    // True when a stop had begun before the agent exited or reported a result.
    wasStopped: agent.status === 'stopping' && !hasExited && !result,
    ...(agent.error && { violation: agent.error }),
    ...(result && { result }),
    ...(hasExited && { exit: { code: agent.exitCode ?? null, signal: agent.signal ?? null } }),
  }
}
