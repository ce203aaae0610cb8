import type { Socket } from 'socket.io'
import type { LiveSubscription, Subscriptions } from '../../agents/subscriptions.ts'
import type { Message } from '../../core/model/message.ts'
import type { Outbox } from './outbox.ts'

/** Messages per page read from the store. */
const pageSize = 500

type ReadPage = (since: number, limit: number) => Promise<readonly Message[]>

export interface SubscriptionDeps {
  readonly socket: Socket
  readonly outbox: Outbox
  readonly agent: { readonly id: string; readonly namespace: string }
  /** The number of the last message that the client has. */
  readonly since: number
  readonly readPage: ReadPage
  /** The registry that lists this subscription until it ends. */
  readonly subscriptions: Subscriptions
  readonly onDrop: () => void
}

/**
 * The position of one client in the conversation of one agent. A client that keeps up gets live messages at once. A client that
 * falls behind, or asks for earlier messages, gets them from the store. So no message is lost or sent twice, and none pile up in
 * memory.
 */
export class Subscription implements LiveSubscription {
  readonly agentId: string
  readonly namespace: string
  readonly #socket: Socket
  readonly #outbox: Outbox
  readonly #readPage: ReadPage
  readonly #subscriptions: Subscriptions
  readonly #onDrop: () => void
  #sent: number
  #isBehind = false
  #hasNews = false
  /** Events that wait for messages which are not sent yet. */
  readonly #waitingEvents: (() => void)[] = []
  #isEnded = false

  constructor({ socket, outbox, agent, since, readPage, subscriptions, onDrop }: SubscriptionDeps) {
    this.#socket = socket
    this.#outbox = outbox
    this.agentId = agent.id
    this.namespace = agent.namespace
    this.#sent = since
    this.#readPage = readPage
    this.#subscriptions = subscriptions
    this.#onDrop = onDrop
    subscriptions.add(this)
  }

  get clientId(): string {
    return this.#socket.id
  }

  drop(): void {
    this.#onDrop()
  }

  /** Sends the messages that were saved after the client's last one. */
  replay(): void {
    this.#fallBehind()
  }

  take(messages: readonly Message[]): void {
    const isNext = messages[0]?.sequenceNumber === this.#sent + 1
    if (!this.#isBehind && isNext && this.#outbox.hasRoom) this.#send(messages)
    else if ((messages.at(-1)?.sequenceNumber ?? 0) > this.#sent) this.#fallBehind()
  }

  /** Emits an event after every message that was saved before it. */
  afterMessages(emit: () => void): void {
    if (this.#isBehind) this.#waitingEvents.push(emit)
    else emit()
  }

  /** Ends the subscription. Waiting events are emitted now, without the messages before them. */
  end(): void {
    this.#isEnded = true
    this.#subscriptions.remove(this)
    this.#emitWaiting()
  }

  /**
   * Ends the subscription because another one of the same client replaces it. The new one may begin at another message, and takes
   * over the waiting events.
   */
  endFor(next: Subscription): void {
    this.#isEnded = true
    this.#subscriptions.remove(this)
    for (const emit of this.#waitingEvents.splice(0)) next.afterMessages(emit)
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
    this.#emitWaiting()
  }

  #emitWaiting(): void {
    for (const emit of this.#waitingEvents.splice(0)) emit()
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
    return !this.#isEnded && this.#socket.connected
  }
}
