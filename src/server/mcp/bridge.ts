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

/** Where the server is, and what it has to be told with every call. */
export interface Far {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
}

type SendOptions = NonNullable<Parameters<StreamableHTTPClientTransport['send']>[1]>

interface Pending {
  readonly abort: AbortController
  /** The 2026 revision: to hang up is to cancel. */
  readonly isModern: boolean
  /** On its way: what is about it must not overtake it. */
  sent: Promise<void>
}

/** More than any client waits for at once. */
const mostPending = 1_000

/** How long the goodbye to the server may take. */
const goodbyeMs = 2_000

/** By JSON-RPC 2.0 the first code of those that a server may choose. */
const serverError = -32_000

/**
 * A client on stdio, a server on HTTP. When the server goes away, whoever waits for an answer is told; the next call looks
 * for a server again, and opens a session there as the client had opened the first.
 */
export class Bridge {
  readonly #near: Transport
  readonly #find: () => Promise<Far>
  readonly #log: Log
  readonly #pending = new Map<RequestId, Pending>()
  #far: Promise<StreamableHTTPClientTransport> | undefined
  /** How the client of a 2025 revision said hello. */
  #hello: JSONRPCRequest | undefined
  #hellos = 0
  /** Settles when that was answered: before, the server knows no session for what else the client says. */
  #welcome: PromiseWithResolvers<void> | undefined
  /** Hellos of our own that wait for their answer. */
  readonly #greeted = new Map<RequestId, { resolve(answer: JSONRPCMessage): void; reject(error: Error): void }>()

  constructor(near: Transport, find: () => Promise<Far>, log: Log) {
    this.#near = near
    this.#find = find
    this.#log = log
    near.onmessage = (message: JSONRPCMessage) => void this.#fromClient(message)
    near.onerror = (error) => log.warn('The client said something that is no MCP.', { error: error.message })
  }

  /** The client is gone: so is its session, with whatever it still waited for. */
  async close(): Promise<void> {
    for (const { abort } of this.#pending.values()) abort.abort()
    this.#pending.clear()
    this.#welcome?.resolve()
    const far = await this.#far?.catch(noop)
    if (!far) return
    const patience = new Promise<void>((resolve) => AbortSignal.timeout(goodbyeMs).addEventListener('abort', () => resolve()))
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
    // Nobody waits for an answer to it.
    await this.#send(message, {}).catch((error: unknown) => this.#log.warn('A notification was lost.', { error: sentence(error) }))
  }

  async #ask(message: JSONRPCRequest): Promise<void> {
    const { id } = message
    if (this.#pending.size >= mostPending) return this.#answer(failure(id, 'Too many calls wait for an answer; wait for one first.'))
    if (isInitializeRequest(message)) {
      this.#hello = message
      this.#welcome = Promise.withResolvers()
    }
    const abort = new AbortController()
    const sent = this.#send(message, { requestSignal: abort.signal, onRequestStreamEnd: () => this.#fail(id, undefined) })
    this.#pending.set(id, { abort, isModern: isModern(message), sent: sent.catch(noop) })
    await sent.catch((error: unknown) => this.#fail(id, error))
  }

  /** What reached no server that knows us is said again, once, to the one that is there now. */
  async #send(message: JSONRPCMessage, options: SendOptions, isRepeat = false): Promise<void> {
    const isHello = isInitializeRequest(message)
    if (!isHello) await this.#welcome?.promise
    const reached = this.#reached(isHello)
    const far = await reached
    try {
      await far.send(message, options)
    } catch (error) {
      if (options.requestSignal?.aborted) return
      const status = error instanceof SdkHttpError ? error.status : undefined
      // Another refusal is about this call alone. Streams that are still open end by themselves.
      if ((status === undefined || status === 404) && this.#far === reached) this.#far = undefined
      if (status !== 404 || isRepeat) throw error
      await this.#send(message, options, true)
    }
  }

  #reached(isHello: boolean): Promise<StreamableHTTPClientTransport> {
    if (this.#far) return this.#far
    const far = this.#open(isHello)
    this.#far = far
    far.catch(() => {
      if (this.#far === far) this.#far = undefined
    })
    return far
  }

  async #open(isHello: boolean): Promise<StreamableHTTPClientTransport> {
    const { url, headers } = await this.#find()
    const far = new StreamableHTTPClientTransport(url, { requestInit: { headers } })
    far.onmessage = (message) => this.#fromServer(far, message)
    await far.start()
    if (this.#hello && !isHello) await this.#greet(far, this.#hello)
    return far
  }

  /** The session of before is gone with its server: another one is opened in the client's name. */
  async #greet(far: StreamableHTTPClientTransport, hello: JSONRPCRequest): Promise<void> {
    const id = `ebb-bridge-${++this.#hellos}`
    const answer = new Promise<JSONRPCMessage>((resolve, reject) => this.#greeted.set(id, { resolve, reject }))
    answer.catch(noop)
    try {
      await far.send({ ...hello, id }, { onRequestStreamEnd: () => this.#greeted.get(id)?.reject(new Error('it did not answer')) })
      await answer
      await far.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
    } finally {
      this.#greeted.delete(id)
    }
  }

  #fromServer(far: StreamableHTTPClientTransport, message: JSONRPCMessage): void {
    if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) {
      const { id } = message
      const greeted = id === undefined ? undefined : this.#greeted.get(id)
      const isHello = greeted !== undefined || (id !== undefined && id === this.#hello?.id)
      const version = isJSONRPCResultResponse(message) ? message.result.protocolVersion : undefined
      if (isHello && typeof version === 'string') far.setProtocolVersion(version)
      greeted?.resolve(message)
      // A hello of our own, or one for which an error was given already.
      if (id === undefined || !this.#over(id)) return
    }
    this.#answer(message)
  }

  #fail(id: RequestId, error: unknown): void {
    if (this.#over(id)) this.#answer(failure(id, explained(error)))
  }

  #over(id: RequestId): boolean {
    if (id === this.#hello?.id) this.#welcome?.resolve()
    return this.#pending.delete(id)
  }

  #answer(message: JSONRPCMessage): void {
    this.#near.send(message).catch(noop)
  }
}

function failure(id: RequestId, message: string): JSONRPCMessage {
  return { jsonrpc: '2.0', id, error: { code: serverError, message } }
}

/** The server's own sentence where it gave one. */
function explained(error: unknown): string {
  if (error === undefined) return 'The Ebb server went away before it answered; what was asked may have been done. Look, then ask again.'
  if (error instanceof SdkHttpError) return said(error.data.text) ?? `The Ebb server refused the call (status ${error.status}).`
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  const code = errno(cause)
  return code === undefined ? sentence(error) : `The Ebb server does not answer (${code}); the next call looks for it again.`
}

function said(text: unknown): string | undefined {
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
