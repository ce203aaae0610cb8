import { createHash } from 'node:crypto'
import type { Agent } from '../core/model/agent.ts'
import { orchestrator } from '../core/model/spawn-rule.ts'
import { agentTypeOf } from '../core/model/task.ts'

/** An agent of a task, as far as its place there is concerned. */
export interface Member {
  readonly id: string
  readonly name: string
  readonly agentType: string
  readonly parentId: string | undefined
  /** 1 for those whom the orchestrator deployed. */
  readonly depth: number
  /** The same for the same type, prompt and parent. */
  readonly key: string
}

/** The agents of one task, and those on their way into it. */
export class TaskAgents {
  readonly #members = new Map<string, Member>()
  readonly #byName = new Map<string, Member>()
  /** Reserved, before anything of them exists. */
  readonly #coming = new Set<Member>()
  /** Killed with everybody below them: whoever comes to be there after that is too late. */
  readonly #doomed = new Set<string>()
  /** Ever deployed, also those whose rows are gone. */
  deployed: number

  constructor(deployed: number) {
    this.deployed = deployed
  }

  /** What the rows say; newest first, as they are listed. */
  learn(agents: readonly Agent[]): void {
    for (const agent of agents.toReversed()) {
      if (this.#members.has(agent.id)) continue
      const name = agent.name ?? agent.id
      const agentType = agentTypeOf(name)
      const key = keyOf(agentType, agent.parentAgentId, agent.session.prompt)
      this.#add({ id: agent.id, name, agentType, parentId: agent.parentAgentId, depth: this.#depth(agent.parentAgentId), key })
    }
  }

  #add(member: Member): void {
    this.#members.set(member.id, member)
    this.#byName.set(member.name, member)
  }

  #depth(parentId: string | undefined): number {
    return parentId === undefined ? 1 : (this.#members.get(parentId)?.depth ?? 1) + 1
  }

  find(nameOrId: string): Member | undefined {
    return this.#members.get(nameOrId) ?? this.#byName.get(nameOrId)
  }

  hasName(name: string): boolean {
    return this.#byName.has(name) || [...this.#coming].some((member) => member.name === name)
  }

  get members(): Iterable<Member> {
    return this.#members.values()
  }

  /** Those who count as being there: living, or on their way. */
  present(isLiving: (id: string) => boolean): readonly Member[] {
    return [...this.#coming, ...[...this.#members.values()].filter(({ id }) => isLiving(id))]
  }

  /** Ever, and on their way. */
  get total(): number {
    return this.deployed + this.#coming.size
  }

  reserve(member: Member): void {
    this.#coming.add(member)
  }

  /** It is there. */
  arrive(member: Member): void {
    this.#coming.delete(member)
    this.deployed += 1
    this.#add(member)
  }

  giveUp(member: Member): void {
    this.#coming.delete(member)
  }

  doom(id: string): void {
    this.#doomed.add(id)
  }

  isDoomed(id: string | undefined): boolean {
    return id !== undefined && (this.#doomed.has(id) || this.isDoomed(this.#members.get(id)?.parentId))
  }

  typeOf(parentId: string | undefined): string {
    return parentId === undefined ? orchestrator : (this.#members.get(parentId)?.agentType ?? orchestrator)
  }

  nameOf(parentId: string | undefined): string {
    return parentId === undefined ? orchestrator : (this.#members.get(parentId)?.name ?? parentId)
  }

  /** All below an agent, in the order in which they came. */
  descendants(id: string): readonly Member[] {
    const below = new Set([id])
    return [...this.#members.values()].filter((member) => {
      const isBelow = member.parentId !== undefined && below.has(member.parentId)
      if (isBelow) below.add(member.id)
      return isBelow
    })
  }
}

/** Of prompts that may be long only the hash is kept. */
export function keyOf(agentType: string, parentId: string | undefined, prompt: string): string {
  return createHash('sha256')
    .update(JSON.stringify([agentType, parentId ?? null, prompt]))
    .digest('base64')
}
