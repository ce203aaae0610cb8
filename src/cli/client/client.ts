import http from 'node:http'
import https from 'node:https'
import { text as readText } from 'node:stream/consumers'
import type { Config } from '../../config/config.ts'
import { readServerFile, type ServerFile } from '../../config/server-file.ts'
import type { Agent } from '../../core/model/agent.ts'
import { EbbError, type ErrorArguments, type ErrorCode, errno, errorTable, sentence } from '../../core/model/errors.ts'
import type { Message } from '../../core/model/message.ts'
import type { Conversation } from './follow.ts'

/** The HTTP client of the commands. Calls that wait for an event are long polls. */

/** How long a health check may take. A server that takes longer counts as unreachable. */
const healthTimeoutMs = 5_000

const pageSize = 1_000

interface Answer {
  readonly status: number
  readonly body: unknown
}

interface Call {
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** Sends a request. It does not use fetch, because fetch gives up on an answer after five minutes, and a stop may have a longer grace. */
function exchange(url: string, method: string, { body, ...call }: Call): Promise<{ readonly status: number; readonly text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ readonly status: number; readonly text: string }>()
  const request = url.startsWith('https:') ? https.request : http.request
  const sent = request(url, { ...call, method }, (answer) => {
    readText(answer).then((text) => resolve({ status: answer.statusCode ?? 0, text }), reject)
  })
  sent.once('error', reject)
  sent.end(body)
  return promise
}

export class Client implements Conversation {
  readonly url: string
  /** True for a server on this machine: a path then means the same file for the command and for the server. */
  readonly isLocal: boolean
  readonly #token: string | undefined

  constructor(url: string, token: string | undefined) {
    this.url = url
    this.isLocal = /^https?:\/\/(localhost|127\.\d+\.\d+\.\d+|\[::1?\]|0\.0\.0\.0)(:|$)/.test(url)
    this.#token = token
  }

  /** The headers of every call. */
  get headers(): Readonly<Record<string, string>> {
    return this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }
  }

  /** Waits for the answer without a time limit, unless `signal` ends the wait. */
  async get<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await this.#ask('GET', path, signal ? { signal } : {})) as T
  }

  async post<T>(path: string, body: object): Promise<T> {
    return (await this.#ask('POST', path, { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } })) as T
  }

  async delete(path: string): Promise<void> {
    await this.#ask('DELETE', path)
  }

  agent(id: string): Promise<Agent> {
    return this.get(`/agents/${id}`)
  }

  messages(id: string, since: number, waitMs: number): Promise<readonly Message[]> {
    return this.get(`/agents/${id}/messages?since=${since}&wait=${waitMs}&limit=${pageSize}`)
  }

  /** The pid of the server, from its health check. An unhealthy server answers 503, and gives its pid too. */
  async pid(): Promise<number> {
    const { status, body } = await this.#send('GET', '/health', { signal: AbortSignal.timeout(healthTimeoutMs) })
    if (status !== 200 && status !== 503) throw this.#refusal({ status, body })
    const { pid } = (body ?? {}) as { readonly pid?: unknown }
    if (typeof pid !== 'number')
      throw new EbbError('server_unreachable', `The program that answers at ${this.url} is not an Ebb server; check the address.`)
    return pid
  }

  async #ask(method: string, path: string, call: Call = {}): Promise<unknown> {
    const answer = await this.#send(method, path, call)
    if (answer.status >= 200 && answer.status < 300) return answer.body
    throw this.#refusal(answer)
  }

  async #send(method: string, path: string, call: Call): Promise<Answer> {
    const headers = { ...call.headers, ...this.headers }
    try {
      const { status, text } = await exchange(`${this.url}/api${path}`, method, { ...call, headers })
      return { status, body: text === '' ? undefined : JSON.parse(text) }
    } catch (error) {
      if (error instanceof SyntaxError)
        throw new EbbError('server_unreachable', `The program that answers at ${this.url} is not an Ebb server; check the address.`, {
          cause: error,
        })
      if (isTimeout(error))
        throw new EbbError('server_unreachable', `The server at ${this.url} does not answer in time; check that it is healthy.`, {
          cause: error,
        })
      throw new EbbError('server_unreachable', `No server answers at ${this.url} (${reasonOf(error)}); check that it runs.`, {
        cause: error,
      })
    }
  }

  /** Turns an error answer into an error with the server's own code and message. */
  #refusal({ status, body }: Answer): EbbError {
    const { code, message, details } = (body ?? {}) as { code?: string; message?: string; details?: unknown }
    if (code === 'unauthorized')
      return new EbbError('unauthorized', `The server at ${this.url} requires a token; give it with --token or EBB_TOKEN.`)
    if (typeof message !== 'string')
      return new EbbError(
        'server_unreachable',
        `The program that answers at ${this.url} is not an Ebb server (status ${status}); check the address.`,
      )
    // The details of a server's error answer have the type that belongs to its error code, so the cast is safe.
    return new EbbError(...([isErrorCode(code) ? code : 'internal', message, { details }] as ErrorArguments))
  }
}

function isErrorCode(code: string | undefined): code is ErrorCode {
  return code !== undefined && Object.hasOwn(errorTable, code)
}

/** The reason of a failed connection. For an aborted call, the cause of the error is the reason. */
function reasonOf(error: unknown): string {
  const reason = error instanceof Error ? (error.cause ?? error) : error
  return errno(reason) ?? sentence(reason)
}

/** A client for the server of `--url`, without a check, or for the server of the home. Throws if there is none. */
export async function connect(config: Config): Promise<Client> {
  const found = await locate(config)
  if (found instanceof Client) return found
  throw new EbbError('server_unreachable', found.absence)
}

/** Connects, and checks that an Ebb server answers. The server of the home was checked by `connect` already. */
export async function connectAndCheck(config: Config): Promise<Client> {
  const client = await connect(config)
  if (config.url !== undefined) await client.pid()
  return client
}

/** A client for the server of `--url`, without a check, or for the server of the home if it runs. */
export async function findServer(config: Config): Promise<Client | undefined> {
  const found = await locate(config)
  return found instanceof Client ? found : undefined
}

async function locate({ url, token, home }: Config): Promise<Client | { readonly absence: string }> {
  const file = readServerFile(home)
  // The token in a home is sent only to the server of that home.
  if (url !== undefined) return new Client(url, token ?? (file?.url === url ? file.token : undefined))
  if (!file) return { absence: `No server runs on the home ${home}; start one with: ebb serve` }
  const client = new Client(file.url, token ?? file.token)
  try {
    if ((await client.pid()) === file.pid) return client
  } catch (error) {
    if (!(error instanceof EbbError) || error.code !== 'server_unreachable') throw error
    if (isAlive(file.pid) && isTimeout(error.cause))
      throw new EbbError(
        'server_unreachable',
        `The server of ${home} (pid ${file.pid}, ${file.url}) runs but does not answer; wait, or end it and start it again.`,
      )
  }
  return { absence: staleFile(home, file) }
}

/** The message for a server that did not remove its file: it was killed, or its machine went down. */
function staleFile(home: string, { pid, url }: ServerFile): string {
  return `The server of ${home} (pid ${pid}, ${url}) no longer runs; start another one with: ebb serve`
}

function isTimeout(abort: unknown): boolean {
  return abort instanceof Error && abort.cause instanceof Error && abort.cause.name === 'TimeoutError'
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return errno(error) === 'EPERM'
  }
}
