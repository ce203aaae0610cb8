import type { Agent } from '../../core/model/agent.ts'
import { EbbError } from '../../core/model/errors.ts'
import type { Client } from './client.ts'

/** The minimum length of the beginning of an id. A shorter one may easily be the beginning of another agent's id too. */
const minPrefixLength = 4

/** A whole UUID is not looked up: the call that uses it fails if there is no such agent. */
const fullId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Finds an agent by its name, its id, or an unambiguous beginning of its id. */
export class AgentIds {
  readonly #client: Client
  #all: Promise<readonly Agent[]> | undefined

  constructor(client: Client) {
    this.#client = client
  }

  async find(word: string): Promise<string> {
    const wanted = word.toLowerCase()
    if (fullId.test(wanted)) return wanted
    if (word.length < minPrefixLength)
      throw new EbbError(
        'invalid_id',
        `"${word}" is too short for the ID of an agent; give at least ${minPrefixLength} characters. "ebb ps" lists them.`,
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
        `"${word}" matches ${found.length} agents, among them ${found
          .slice(0, 3)
          .map(({ id }) => id)
          .join(', ')}; give more characters of the id.`,
      )
    throw new EbbError('agent_not_found', `There is no agent "${word}" on the server at ${this.#client.url}; "ebb ps --all" lists them.`)
  }
}
