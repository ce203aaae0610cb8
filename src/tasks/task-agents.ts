import { createHash } from 'node:crypto'
import type { Agent } from '../core/model/agent.ts'
import { orchestrator } from '../core/model/spawn-rule.ts'
import { agentTypeOf } from '../core/model/task.ts'

/** The place of an agent in its task. */
export interface Member {
  readonly id: string
  readonly name: string
  readonly agentType: string
  readonly parentId: string | undefined
  /** The generation: 1 for agents deployed by the orchestrator. */
  readonly depth: number
  /** A key that is equal for deployments with the same type, prompt and parent. */
  readonly key: string
}

/** The agents of one task, including those that are being deployed. */
export class TaskAgents {
  readonly #members = new Map<string, Member>()
  readonly #byName = new Map<string, Member>()
  /** Deployments with a reserved place, before anything of them exists. */
  readonly #reserved = new Set<Member>()
  /** Agents killed with all descendants: nothing may be deployed below them any more. */
  readonly #killed = new Set<string>()
  /** The number of agents ever deployed, including those whose rows are deleted. */
  deployed: number

  constructor(deployed: number) {
    this.deployed = deployed
  }

  /** Adds agents from their rows, given newest first. Known agents stay unchanged. */
  load(agents: readonly Agent[]): void {
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
    return this.#byName.has(name) || [...this.#reserved].some((member) => member.name === name)
  }

  get members(): Iterable<Member> {
    return this.#members.values()
  }

  /** The agents that count for the limits: running ones and reserved ones. */
  present(isLiving: (id: string) => boolean): readonly Member[] {
    return [...this.#reserved, ...[...this.#members.values()].filter(({ id }) => isLiving(id))]
  }

  /** The number of agents ever deployed, plus reserved ones. */
  get total(): number {
    return this.deployed + this.#reserved.size
  }

  reserve(member: Member): void {
    this.#reserved.add(member)
  }

  /** Turns a reservation into a deployed agent. */
  arrive(member: Member): void {
    this.#reserved.delete(member)
    this.deployed += 1
    this.#add(member)
  }

  /** Drops the reservation of a deployment that failed. */
  giveUp(member: Member): void {
    this.#reserved.delete(member)
  }

  /** Marks an agent as killed with all its descendants. */
  markKilled(id: string): void {
    this.#killed.add(id)
  }

  /** True for an agent that was killed with its descendants, and for everything below it. */
  isKilled(id: string | undefined): boolean {
    return id !== undefined && (this.#killed.has(id) || this.isKilled(this.#members.get(id)?.parentId))
  }

  typeOf(parentId: string | undefined): string {
    return parentId === undefined ? orchestrator : (this.#members.get(parentId)?.agentType ?? orchestrator)
  }

  nameOf(parentId: string | undefined): string {
    return parentId === undefined ? orchestrator : (this.#members.get(parentId)?.name ?? parentId)
  }

  /** All descendants of an agent, oldest first. */
  descendants(id: string): readonly Member[] {
    const below = new Set([id])
    return [...this.#members.values()].filter((member) => {
      const isBelow = member.parentId !== undefined && below.has(member.parentId)
      if (isBelow) below.add(member.id)
      return isBelow
    })
  }
}

/** The key by which equal deployments are recognized. It is a hash, because prompts can be long. */
export function keyOf(agentType: string, parentId: string | undefined, prompt: string): string {
  return createHash('sha256')
    .update(JSON.stringify([agentType, parentId ?? null, prompt]))
    .digest('base64')
}
