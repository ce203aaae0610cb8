import { createHash, randomBytes } from 'node:crypto'
import type { TaskStore } from '../core/ports/tasks.ts'
import type { AgentCaller } from './types.ts'

/** 256 bits: nobody guesses it. */
const tokenBytes = 32

export interface Token {
  /** For the agent alone; never kept. */
  readonly text: string
  readonly hash: string
}

/** By which tokens agents are known when they call back. Kept are only their hashes: here, and with the rows for the next life. */
export class Callers {
  readonly #store: TaskStore
  readonly #byHash = new Map<string, string>()
  readonly #byAgent = new Map<string, string>()

  constructor(store: TaskStore) {
    this.#store = store
  }

  /** Known at once: an agent may call back before its launch has answered. */
  issue(agentId: string): Token {
    const text = randomBytes(tokenBytes).toString('base64url')
    const hash = hashOf(text)
    this.#byHash.set(hash, agentId)
    this.#byAgent.set(agentId, hash)
    return { text, hash }
  }

  /** It ends with the agent. */
  revoke(agentId: string): void {
    const hash = this.#byAgent.get(agentId)
    if (hash !== undefined) this.#byHash.delete(hash)
    this.#byAgent.delete(agentId)
  }

  /** Compared are hashes: how long that takes says nothing of a token. */
  async find(token: string): Promise<AgentCaller | undefined> {
    const hash = hashOf(token)
    // One of an earlier life, whose agent lives on, is in its row.
    const agentId = this.#byHash.get(hash) ?? (await this.#store.tokenHolder(hash))
    return agentId === undefined ? undefined : { agentId }
  }
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}
