import type { McpServer, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server'
import { noop } from '../../core/engine/race.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Caller } from '../../tasks/types.ts'

/** A client's session. It ends when the client ends it, when it is idle for too long, or to make room for a newer one. */
export interface Session {
  readonly id: string
  readonly caller: Caller
  readonly server: McpServer
  readonly transport: WebStandardStreamableHTTPServerTransport
}

interface Entry {
  readonly session: Session
  /** Requests that wait for their answer. */
  calls: number
  /** Connections on which the client listens. */
  streams: number
  usedMs: number
}

const mostSessions = 200
const idleMs = 3_600_000
const checkEveryMs = 60_000

export class Sessions {
  readonly #clock: Clock
  /** The sessions by id, ordered by their last use: the least recently used is first. */
  readonly #entries = new Map<string, Entry>()
  readonly #lifetime = new AbortController()

  constructor(clock: Clock) {
    this.#clock = clock
    clock.every(checkEveryMs, this.#lifetime.signal, () => this.#endIdle())
  }

  get size(): number {
    return this.#entries.size
  }

  /** Finds a session of this caller. To know the id of another caller's session gives no right to it. */
  find(id: string, caller: Caller): Session | undefined {
    const session = this.#entries.get(id)?.session
    return session && isSame(session.caller, caller) ? session : undefined
  }

  /** Whether a session can be added. False when the limit is reached and all sessions wait for answers, so that none can be ended. */
  hasRoom(): boolean {
    return this.#entries.size < mostSessions || this.#dispensable() !== undefined
  }

  /** Adds a session. At the limit, another session is ended to make room. */
  add(session: Session): void {
    if (this.#lifetime.signal.aborted) {
      this.#close(session)
      return
    }
    while (this.#entries.size >= mostSessions) {
      const other = this.#dispensable()
      if (!other) break
      this.#end(other)
    }
    this.#entries.set(session.id, { session, calls: 0, streams: 0, usedMs: this.#clock.now() })
  }

  /** Counts a connection of the session while it is open. */
  use(id: string, as: 'calls' | 'streams', closed: Promise<void>): void {
    const entry = this.#entries.get(id)
    if (!entry) return
    entry[as] += 1
    this.#touch(entry)
    closed.then(() => {
      entry[as] -= 1
      this.#touch(entry)
    }, noop)
  }

  remove(id: string): void {
    this.#entries.delete(id)
  }

  /** An agent's session ends with the agent. */
  endOf(agentId: string): void {
    for (const entry of [...this.#entries.values()]) if (isSame(entry.session.caller, { agentId })) this.#end(entry)
  }

  close(): void {
    this.#lifetime.abort()
    for (const entry of [...this.#entries.values()]) this.#end(entry)
  }

  #touch(entry: Entry): void {
    entry.usedMs = this.#clock.now()
    if (this.#entries.delete(entry.session.id)) this.#entries.set(entry.session.id, entry)
  }

  /** The session to end when room is needed: the oldest without a stream, else the oldest. Never one that waits for an answer. */
  #dispensable(): Entry | undefined {
    const idle = [...this.#entries.values()].filter(({ calls }) => calls === 0)
    return idle.find(({ streams }) => streams === 0) ?? idle[0]
  }

  #endIdle(): void {
    const before = this.#clock.now() - idleMs
    for (const entry of [...this.#entries.values()])
      if (entry.calls === 0 && entry.streams === 0 && entry.usedMs <= before) this.#end(entry)
  }

  #end({ session }: Entry): void {
    this.#entries.delete(session.id)
    this.#close(session)
  }

  #close({ server }: Session): void {
    server.close().catch(noop) // The session is removed already, and its connection may be broken.
  }
}

function isSame(caller: Caller, other: Caller): boolean {
  return caller === other || (caller !== 'orchestrator' && other !== 'orchestrator' && caller.agentId === other.agentId)
}
