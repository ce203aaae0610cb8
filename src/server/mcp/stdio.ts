import {
  isJSONRPCErrorResponse,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type RequestId,
} from '@modelcontextprotocol/server'
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { within } from '../../core/engine/race.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { cancelledId } from './cancelled.ts'

/** A client that has left so much unread reads nothing any more. */
const mostUnread = 67_108_864

/** One that has said all it had to say waits so long for what it asked. */
const answerBudgetMs = 5_000

/** Lasts as long as its connection, and is never answered. */
const unanswered = 'subscriptions/listen'

/** The client that started us, on standard input and output; nothing else is written there. */
export class ClientStdio extends StdioServerTransport {
  readonly #clock: Clock
  readonly #gone = Promise.withResolvers<void>()
  /** Asked, and not answered yet. */
  readonly #asked = new Set<RequestId>()
  readonly #answered = Promise.withResolvers<void>()

  constructor(clock: Clock) {
    super()
    this.#clock = clock
  }

  /** It closed its end and has its answers, died, or does not read: nothing more can be said. */
  get gone(): Promise<void> {
    return this.#gone.promise
  }

  override async start(): Promise<void> {
    const take = this.onmessage
    this.onmessage = (message) => {
      if (isJSONRPCRequest(message) && message.method !== unanswered) this.#asked.add(message.id)
      this.#settle(cancelledId(message))
      take?.(message)
    }
    await super.start()
  }

  /** At the end of its input it may still read: a client need not wait for one answer before it asks for the next, or closes. */
  override async close(): Promise<void> {
    if (process.stdin.readableEnded && process.stdout.writable && this.#asked.size > 0)
      await within(this.#clock, answerBudgetMs, this.#answered.promise)
    this.#answered.resolve()
    await super.close()
    this.#gone.resolve()
  }

  override async send(message: JSONRPCMessage): Promise<void> {
    if (process.stdout.writableLength > mostUnread) await this.close()
    const sent = super.send(message)
    if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) this.#settle(message.id)
    await sent
  }

  #settle(id: RequestId | undefined): void {
    if (id !== undefined && this.#asked.delete(id) && this.#asked.size === 0 && process.stdin.readableEnded) this.#answered.resolve()
  }
}
