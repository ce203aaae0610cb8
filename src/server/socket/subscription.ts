import type { Socket } from 'socket.io'
import type { Message } from '../../core/model/message.ts'
import type { Outbox } from './outbox.ts'

/** So many are read from the store at a time. */
const pageSize = 500

type ReadPage = (since: number, limit: number) => Promise<readonly Message[]>

export interface SubscriptionDeps {
  readonly socket: Socket
  readonly outbox: Outbox
  readonly agent: { readonly id: string; readonly namespace: string }
  /** The last number that the client knows. */
  readonly since: number
  readonly readPage: ReadPage
}

/**
 * One client's place in one agent's conversation. Live messages go straight through while the client keeps up; when it
 * falls behind, or asked for earlier ones, it is served from the store, so that nothing is lost, nothing comes twice,
 * and nothing piles up in memory.
 */
export class Subscription {
  readonly agentId: string
  readonly namespace: string
  readonly #socket: Socket
  readonly #outbox: Outbox
  readonly #readPage: ReadPage
  #sent: number
  #isBehind = false
  #hasNews = false
  /** What came after the messages that are still on their way. */
  readonly #tail: (() => void)[] = []
  #isOver = false

  constructor({ socket, outbox, agent, since, readPage }: SubscriptionDeps) {
    this.#socket = socket
    this.#outbox = outbox
    this.agentId = agent.id
    this.namespace = agent.namespace
    this.#sent = since
    this.#readPage = readPage
  }

  /** What was saved after the number that the client knows. */
  replay(): void {
    this.#fallBehind()
  }

  take(messages: readonly Message[]): void {
    const isNext = messages[0]?.sequenceNumber === this.#sent + 1
    if (!this.#isBehind && isNext && this.#outbox.hasRoom) this.#send(messages)
    else if ((messages.at(-1)?.sequenceNumber ?? 0) > this.#sent) this.#fallBehind()
  }

  /** Told after every message that was saved before it. */
  tell(say: () => void): void {
    if (this.#isBehind) this.#tail.push(say)
    else say()
  }

  /** What was to be told after messages that nobody wants any more is told now. */
  end(): void {
    this.#isOver = true
    this.#sayRest()
  }

  /** The same client begins anew, perhaps at another place: what it was to be told last, it is told after that. */
  endFor(next: Subscription): void {
    this.#isOver = true
    for (const say of this.#tail.splice(0)) next.tell(say)
  }

  #send(messages: readonly Message[]): void {
    for (const message of messages) {
      const { agentId } = this
      this.#socket.emit('agent:message', { agentId, message, timestamp: message.createdAt })
    }
    this.#sent = messages.at(-1)?.sequenceNumber ?? this.#sent
  }

  #fallBehind(): void {
    this.#hasNews = true
    if (this.#isBehind) return
    this.#isBehind = true
    this.#catchUp().catch(() => this.#socket.disconnect(true))
  }

  async #catchUp(): Promise<void> {
    while (this.#hasNews && this.#isWanted) await this.#outbox.turn(() => this.#sendPage())
    this.#isBehind = false
    this.#sayRest()
  }

  #sayRest(): void {
    for (const say of this.#tail.splice(0)) say()
  }

  async #sendPage(): Promise<void> {
    if (!this.#isWanted) return
    this.#hasNews = false
    const page = await this.#readPage(this.#sent, pageSize)
    if (!this.#isWanted) return
    this.#send(page)
    if (page.length > 0) this.#hasNews = true
  }

  get #isWanted(): boolean {
    return !this.#isOver && this.#socket.connected
  }
}
