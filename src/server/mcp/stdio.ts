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

/** A client that leaves more bytes unread counts as gone. */
const mostUnread = 67_108_864

/** How long the client's requests may still be answered after the end of its input. */
const answerBudgetMs = 5_000

/** The method of requests that last as long as their connection and are never answered. */
const unanswered = 'subscriptions/listen'

/** The transport to the client that started this process, on standard input and output. Nothing else is written to standard output. */
export class ClientStdio extends StdioServerTransport {
  readonly #clock: Clock
  readonly #gone = Promise.withResolvers<void>()
  /** Requests without an answer yet. */
  readonly #waiting = new Set<RequestId>()
  readonly #answered = Promise.withResolvers<void>()

  constructor(clock: Clock) {
    super()
    this.#clock = clock
  }

  /** Resolves when nothing more can be sent: the client closed its end and has its answers, died, or does not read. */
  get gone(): Promise<void> {
    return this.#gone.promise
  }

  override async start(): Promise<void> {
    const handle = this.onmessage
    this.onmessage = (message) => {
      if (isJSONRPCRequest(message) && message.method !== unanswered) this.#waiting.add(message.id)
      this.#settle(cancelledId(message))
      handle?.(message)
    }
    await super.start()
  }

  /**
   * Closes the transport. After the end of its input the client may still read, so this waits for open answers first. The client
   * need not wait for answers before it closes its input.
   */
  override async close(): Promise<void> {
    if (process.stdin.readableEnded && process.stdout.writable && this.#waiting.size > 0)
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
    if (id !== undefined && this.#waiting.delete(id) && this.#waiting.size === 0 && process.stdin.readableEnded) this.#answered.resolve()
  }
}
