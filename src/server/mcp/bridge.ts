import {
  isInitializeRequest,
  isJSONRPCErrorResponse,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type JSONRPCRequest,
  PROTOCOL_VERSION_META_KEY,
  type RequestId,
  SdkHttpError,
  StreamableHTTPClientTransport,
  type Transport,
} from '@modelcontextprotocol/client'
import { noop } from '../../core/engine/race.ts'
import { errno, sentence } from '../../core/model/errors.ts'
import type { Log } from '../../core/ports/log.ts'
import { cancelledId } from './cancelled.ts'

/** The address of the server, and the headers of every call. */
export interface Far {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
}

type SendOptions = NonNullable<Parameters<StreamableHTTPClientTransport['send']>[1]>

interface Pending {
  readonly abort: AbortController
  /** True for a request of the 2026 revision. Such a request is cancelled by closing its HTTP request. */
  readonly isModern: boolean
  /** Settles when the request was sent. A notification about the request waits for this, so that it does not overtake the request. */
  sent: Promise<void>
}

/** The most requests that may wait for an answer. No real client waits for so many. */
const mostPending = 1_000

/** How long it may take to end the session at the server. */
const goodbyeMs = 2_000

/** The first of the error codes that JSON-RPC 2.0 leaves to servers. */
const serverError = -32_000

/**
 * Connects a client on stdio with a server on HTTP. When the server goes away, waiting requests are answered with an error. The
 * next call looks for a server again, and opens a session there by repeating the client's `initialize`.
 */
export class Bridge {
  readonly #near: Transport
  readonly #find: () => Promise<Far>
  readonly #log: Log
  readonly #pending = new Map<RequestId, Pending>()
  #far: Promise<StreamableHTTPClientTransport> | undefined
  /** The `initialize` request of a client of a 2025 revision. */
  #initialize: JSONRPCRequest | undefined
  #repeats = 0
  /** Resolves when `initialize` was answered. Before that the server has no session for other messages. */
  #initialized: PromiseWithResolvers<void> | undefined
  /** Repeated `initialize` requests that wait for their answer. */
  readonly #repeated = new Map<RequestId, { resolve(answer: JSONRPCMessage): void; reject(error: Error): void }>()

  constructor(near: Transport, find: () => Promise<Far>, log: Log) {
    this.#near = near
    this.#find = find
    this.#log = log
    near.onmessage = (message: JSONRPCMessage) => void this.#fromClient(message)
    near.onerror = (error) => log.warn('The client sent something that is not MCP.', { error: error.message })
  }

  /** Called when the client is gone. Cancels its requests and ends its session. */
  async close(): Promise<void> {
    for (const { abort } of this.#pending.values()) abort.abort()
    this.#pending.clear()
    this.#initialized?.resolve()
    // A connection that failed has no session to end.
    const far = await this.#far?.catch(noop)
    if (!far) return
    const patience = new Promise<void>((resolve) => AbortSignal.timeout(goodbyeMs).addEventListener('abort', () => resolve()))
    // Without a server there is no session to end, and a server ends idle sessions by itself.
    await Promise.race([far.terminateSession().catch(noop), patience])
    await far.close()
  }

  async #fromClient(message: JSONRPCMessage): Promise<void> {
    if (isJSONRPCRequest(message)) return await this.#ask(message)
    const cancelled = cancelledId(message)
    const pending = cancelled === undefined ? undefined : this.#pending.get(cancelled)
    if (cancelled !== undefined && pending?.isModern) {
      this.#pending.delete(cancelled)
      pending.abort.abort()
      return
    }
    await pending?.sent
    // A failure is only logged, because a notification has no answer that could report it.
    await this.#send(message, {}).catch((error: unknown) =>
      this.#log.warn('A notification of the client could not be sent.', { error: sentence(error) }),
    )
  }

  async #ask(message: JSONRPCRequest): Promise<void> {
    const { id } = message
    if (this.#pending.size >= mostPending)
      return this.#answer(failure(id, 'Too many requests wait for an answer; wait for one of them first.'))
    if (isInitializeRequest(message)) {
      this.#initialize = message
      this.#initialized = Promise.withResolvers()
    }
    const abort = new AbortController()
    const sent = this.#send(message, { requestSignal: abort.signal, onRequestStreamEnd: () => this.#fail(id, undefined) })
    // Swallowed: the next statement handles the error. A notification that waits for `sent` is sent even when the request failed.
    this.#pending.set(id, { abort, isModern: isModern(message), sent: sent.catch(noop) })
    await sent.catch((error: unknown) => this.#fail(id, error))
  }

  /** Sends a message. When the server does not know the session, the message is sent once more, in a new session. */
  async #send(message: JSONRPCMessage, options: SendOptions, isRepeat = false): Promise<void> {
    const isInitialize = isInitializeRequest(message)
    if (!isInitialize) await this.#initialized?.promise
    const reached = this.#reached(isInitialize)
    const far = await reached
    try {
      await far.send(message, options)
    } catch (error) {
      if (options.requestSignal?.aborted) return
      const status = error instanceof SdkHttpError ? error.status : undefined
      // An error without a status means that the server is gone. The status 404 means that the server does not know the session.
      // Any other refusal concerns this call alone. Open streams end by themselves.
      if ((status === undefined || status === 404) && this.#far === reached) this.#far = undefined
      if (status !== 404 || isRepeat) throw error
      await this.#send(message, options, true)
    }
  }

  #reached(isInitialize: boolean): Promise<StreamableHTTPClientTransport> {
    if (this.#far) return this.#far
    const far = this.#open(isInitialize)
    this.#far = far
    far.catch(() => {
      if (this.#far === far) this.#far = undefined
    })
    return far
  }

  async #open(isInitialize: boolean): Promise<StreamableHTTPClientTransport> {
    const { url, headers } = await this.#find()
    const far = new StreamableHTTPClientTransport(url, { requestInit: { headers } })
    far.onmessage = (message) => this.#fromServer(far, message)
    await far.start()
    if (this.#initialize && !isInitialize) await this.#repeatInitialize(far, this.#initialize)
    return far
  }

  /** Opens a new session with the client's `initialize`, because the earlier session is gone with its server. */
  async #repeatInitialize(far: StreamableHTTPClientTransport, initialize: JSONRPCRequest): Promise<void> {
    const id = `ebb-bridge-${++this.#repeats}`
    const answer = new Promise<JSONRPCMessage>((resolve, reject) => this.#repeated.set(id, { resolve, reject }))
    answer.catch(noop) // Swallowed: the answer may fail before `await answer`, which reports the failure.
    try {
      await far.send(
        { ...initialize, id },
        { onRequestStreamEnd: () => this.#repeated.get(id)?.reject(new Error('The Ebb server did not answer "initialize".')) },
      )
      await answer
      await far.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
    } finally {
      this.#repeated.delete(id)
    }
  }

  #fromServer(far: StreamableHTTPClientTransport, message: JSONRPCMessage): void {
    if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) {
      const { id } = message
      const repeated = id === undefined ? undefined : this.#repeated.get(id)
      const isInitialize = repeated !== undefined || (id !== undefined && id === this.#initialize?.id)
      const version = isJSONRPCResultResponse(message) ? message.result.protocolVersion : undefined
      if (isInitialize && typeof version === 'string') far.setProtocolVersion(version)
      repeated?.resolve(message)
      // Not passed to the client: the answer to a repeated `initialize`, or to a request that was already answered with an error.
      if (id === undefined || !this.#settle(id)) return
    }
    this.#answer(message)
  }

  #fail(id: RequestId, error: unknown): void {
    if (this.#settle(id)) this.#answer(failure(id, errorText(error)))
  }

  #settle(id: RequestId): boolean {
    if (id === this.#initialize?.id) this.#initialized?.resolve()
    return this.#pending.delete(id)
  }

  #answer(message: JSONRPCMessage): void {
    this.#near.send(message).catch(noop) // The client is gone; `close` follows.
  }
}

function failure(id: RequestId, message: string): JSONRPCMessage {
  return { jsonrpc: '2.0', id, error: { code: serverError, message } }
}

/** The message for a call that failed: the server's own sentence, if the server sent one. */
function errorText(error: unknown): string {
  if (error === undefined)
    return 'The Ebb server went away before it answered; the call may have taken effect. Check that before you repeat it.'
  if (error instanceof SdkHttpError) return messageIn(error.data.text) ?? `The Ebb server refused the call (status ${error.status}).`
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  const code = errno(cause)
  return code === undefined ? sentence(error) : `The Ebb server does not answer (${code}); the next call looks for it again.`
}

function messageIn(text: unknown): string | undefined {
  try {
    const body = JSON.parse(String(text)) as { readonly message?: unknown; readonly error?: { readonly message?: unknown } }
    const message = body.error?.message ?? body.message
    return typeof message === 'string' ? message : undefined
  } catch {
    return undefined
  }
}

function isModern({ params }: JSONRPCRequest): boolean {
  const { _meta: meta } = params ?? {}
  return typeof meta?.[PROTOCOL_VERSION_META_KEY] === 'string'
}
