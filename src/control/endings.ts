import { endingOf, isFinal, type LastDays } from '../domain/agent.ts'
import type { AgentEnd, AgentRecord, AgentStore } from '../ports/agents.ts'
import type { Clock } from '../ports/clock.ts'
import type { EndedScope, Endings, UncleanScope } from '../ports/endings.ts'

/** An agent of this process, as far as its end is concerned. */
export interface LivingAgent {
  /** Settles once its exit is known, or shortly after its end was proven. */
  lastDays(): Promise<LastDays>
  settled(scope: EndedScope, end: AgentEnd | undefined): void
  notReleased(scope: UncleanScope): void
}

export interface EndingsDeps {
  readonly agents: AgentStore
  readonly clock: Clock
  /** Where the logs of ended agents are; gone when it returns, or it throws. */
  readonly removeArchive: (agentId: string) => void
}

/** How agents end: decided between the proof and the books, told after the books. Also for those of dead supervisors. */
export class AgentEndings implements Endings {
  readonly living = new Map<string, LivingAgent>()
  readonly #deps: EndingsDeps

  constructor(deps: EndingsDeps) {
    this.#deps = deps
  }

  async prepare(scopes: readonly EndedScope[]): Promise<{ ended: readonly AgentEnd[]; messagesGoing: number }> {
    const { agents, removeArchive } = this.#deps
    const ended: AgentEnd[] = []
    let messagesGoing = 0
    for (const scope of scopes.filter(({ kind }) => kind === 'agent')) {
      // The logs may have been archived before somebody wished the agent forgotten.
      if (scope.isForgotten) removeArchive(scope.id)
      const record = await agents.find(scope.id)
      if (!record) continue
      if (scope.isForgotten) {
        messagesGoing += record.agent.session.messageCount
        await agents.trim(scope.id)
      }
      if (!isFinal(record.agent.status)) ended.push(await this.#end(scope, record))
    }
    return { ended, messagesGoing }
  }

  async #end(scope: EndedScope, record: AgentRecord): Promise<AgentEnd> {
    const days = (await this.living.get(scope.id)?.lastDays()) ?? orphanDays(record)
    return {
      agentId: scope.id,
      ...endingOf(days),
      ...(days.exit && { exit: days.exit }),
      completedAt: this.#deps.clock.wall(),
      report: scope.report,
    }
  }

  settled(scopes: readonly EndedScope[], ended: readonly AgentEnd[], left: readonly UncleanScope[]): void {
    const ends = new Map(ended.map((end) => [end.agentId, end]))
    for (const scope of scopes) this.living.get(scope.id)?.settled(scope, ends.get(scope.id))
    for (const scope of left) this.living.get(scope.id)?.notReleased(scope)
  }
}

/** Its supervisor is dead: the row says how far it had come. */
function orphanDays({ agent, result }: AgentRecord): LastDays {
  const hasExited = agent.exitCode !== undefined || agent.signal !== undefined
  return {
    isOrphan: true,
    // A stop was under way, and neither an exit nor a verdict had come before it.
    wasStopped: agent.status === 'stopping' && !hasExited && !result,
    ...(agent.error && { violation: agent.error }),
    ...(result && { result }),
    ...(hasExited && { exit: { code: agent.exitCode ?? null, signal: agent.signal ?? null } }),
  }
}
