import type { Agent } from '../core/model/agent.ts'
import { EbbError } from '../core/model/errors.ts'
import type { Client } from './client.ts'

/** Fewer letters of a UUID are too easily those of another agent. */
const fewest = 4

/** A whole UUID needs no look: the call itself says whether there is such an agent. */
const whole = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** The agent that a person means: its name, its id, or the beginning of it that no other one has. */
export class AgentIds {
  readonly #client: Client
  #all: Promise<readonly Agent[]> | undefined

  constructor(client: Client) {
    this.#client = client
  }

  async find(word: string): Promise<string> {
    const wanted = word.toLowerCase()
    if (whole.test(wanted)) return wanted
    if (word.length < fewest)
      throw new EbbError(
        'invalid_id',
        `"${word}" is too short for an agent; give at least ${fewest} letters of its id. "ebb ps" lists them.`,
      )
    this.#all ??= this.#client.get<readonly Agent[]>('/agents')
    const agents = await this.#all
    const named = agents.filter(({ name }) => name === word)
    const found = named.length > 0 ? named : agents.filter(({ id }) => id.startsWith(wanted))
    const [only] = found
    if (only && found.length === 1) return only.id
    if (only)
      throw new EbbError(
        'agent_not_found',
        `"${word}" is the beginning of ${found.length} agents, among them ${found
          .slice(0, 3)
          .map(({ id }) => id)
          .join(', ')}; give more of it.`,
      )
    throw new EbbError('agent_not_found', `There is no agent "${word}" on the server at ${this.#client.url}; "ebb ps --all" lists them.`)
  }
}
