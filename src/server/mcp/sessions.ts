import type { McpServer, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server'
import { noop } from '../../core/engine/race.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Caller } from '../../tasks/types.ts'

/** One client that said hello, until it says goodbye, is silent for too long, or is in the way of a newer one. */
export interface Session {
  readonly id: string
  readonly caller: Caller
  readonly server: McpServer
  readonly transport: WebStandardStreamableHTTPServerTransport
}

interface Entry {
  readonly session: Session
  /** Calls that wait for their answer. */
  calls: number
  /** Connections on which it listens. */
  streams: number
  usedMs: number
}

const mostSessions = 200
const idleMs = 3_600_000
const lookEveryMs = 60_000

export class Sessions {
  readonly #clock: Clock
  /** The one used longest ago is first. */
  readonly #entries = new Map<string, Entry>()
  readonly #lifetime = new AbortController()

  constructor(clock: Clock) {
    this.#clock = clock
    clock.every(lookEveryMs, this.#lifetime.signal, () => this.#endIdle())
  }

  get size(): number {
    return this.#entries.size
  }

  /** Another caller's session does not exist: an id is no right. */
  find(id: string, caller: Caller): Session | undefined {
    const session = this.#entries.get(id)?.session
    return session && isSame(session.caller, caller) ? session : undefined
  }

  /** False: as many as there may be wait for answers. */
  hasRoom(): boolean {
    return this.#entries.size < mostSessions || this.#dispensable() !== undefined
  }

  /** Makes room for it where there is none. */
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

  /** A connection of it, for as long as that is open. */
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

  /** Who waits for an answer keeps its place; who does not even listen goes first. */
  #dispensable(): Entry | undefined {
    const waiting = [...this.#entries.values()].filter(({ calls }) => calls === 0)
    return waiting.find(({ streams }) => streams === 0) ?? waiting[0]
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
    server.close().catch(noop)
  }
}

function isSame(one: Caller, other: Caller): boolean {
  return one === other || (one !== 'orchestrator' && other !== 'orchestrator' && one.agentId === other.agentId)
}
