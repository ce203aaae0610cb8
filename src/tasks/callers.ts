import { createHash, randomBytes } from 'node:crypto'
import type { TaskStore } from '../core/ports/tasks.ts'
import type { AgentCaller } from './types.ts'

/** 256 bits, so that a token cannot be guessed. */
const tokenBytes = 32

export interface Token {
  /** The secret, given to the agent only and never stored. */
  readonly text: string
  readonly hash: string
}

/** Identifies agents by the tokens with which they call Ebb. Stores only hashes: in memory, and in the rows for a restart. */
export class Callers {
  readonly #store: TaskStore
  readonly #byHash = new Map<string, string>()
  readonly #byAgent = new Map<string, string>()

  constructor(store: TaskStore) {
    this.#store = store
  }

  /** The token is valid at once, because an agent can call before its launch has answered. */
  issue(agentId: string): Token {
    const text = randomBytes(tokenBytes).toString('base64url')
    const hash = hashOf(text)
    this.#byHash.set(hash, agentId)
    this.#byAgent.set(agentId, hash)
    return { text, hash }
  }

  /** Ends the token of an agent; called when the agent has ended. */
  revoke(agentId: string): void {
    const hash = this.#byAgent.get(agentId)
    if (hash !== undefined) this.#byHash.delete(hash)
    this.#byAgent.delete(agentId)
  }

  /** Returns the agent with this token. Compares hashes, so that the duration reveals nothing about a token. */
  async find(token: string): Promise<AgentCaller | undefined> {
    const hash = hashOf(token)
    // The token of an adopted agent, issued by an earlier process, is in the agent's row.
    const agentId = this.#byHash.get(hash) ?? (await this.#store.tokenHolder(hash))
    return agentId === undefined ? undefined : { agentId }
  }
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}
