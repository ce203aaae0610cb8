import type { JSONRPCMessage } from '@modelcontextprotocol/server'
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio'

/** A client that has left so much unread reads nothing any more. */
const mostUnread = 67_108_864

/** The client that started us, on standard input and output; nothing else is written there. */
export class ClientStdio extends StdioServerTransport {
  readonly #gone = Promise.withResolvers<void>()

  /** It closed its end, died, or does not read: nothing more can be said. */
  get gone(): Promise<void> {
    return this.#gone.promise
  }

  override async close(): Promise<void> {
    await super.close()
    this.#gone.resolve()
  }

  override async send(message: JSONRPCMessage): Promise<void> {
    if (process.stdout.writableLength > mostUnread) await this.close()
    await super.send(message)
  }
}
