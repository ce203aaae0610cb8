import http from 'node:http'
import https from 'node:https'
import { text as readText } from 'node:stream/consumers'
import type { Config } from '../config/config.ts'
import { readServerFile, type ServerFile } from '../config/server-file.ts'
import type { Agent } from '../core/model/agent.ts'
import { EbbError, type ErrorCode, errno, errorTable, sentence } from '../core/model/errors.ts'
import type { Message } from '../core/model/message.ts'
import type { Conversation } from './follow.ts'

/** A running server, as the other commands see it: by HTTP alone, and what has to wait is a long poll. */

/** A server that does not say in this time that it is there is of no use. */
const helloMs = 5_000

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

/** Not by fetch, which gives up on an answer after five minutes: a stop may have a longer grace. */
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
  /** On this machine: its folders are ours. */
  readonly isLocal: boolean
  readonly #token: string | undefined

  constructor(url: string, token: string | undefined) {
    this.url = url
    this.isLocal = /^https?:\/\/(localhost|127\.\d+\.\d+\.\d+|\[::1?\]|0\.0\.0\.0)(:|$)/.test(url)
    this.#token = token
  }

  /** What every call carries. */
  get headers(): Readonly<Record<string, string>> {
    return this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }
  }

  /** An answer that does not come is waited for, unless a signal ends the wait. */
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

  /** Also of a server that is not well, which says so with an error's status. It has to answer soon. */
  async pid(): Promise<number> {
    const { status, body } = await this.#send('GET', '/health', { signal: AbortSignal.timeout(helloMs) })
    if (status !== 200 && status !== 503) throw this.#refusal({ status, body })
    const { pid } = (body ?? {}) as { readonly pid?: unknown }
    if (typeof pid !== 'number')
      throw new EbbError('server_unreachable', `What answers at ${this.url} is no Ebb server; check the address.`)
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
        throw new EbbError('server_unreachable', `What answers at ${this.url} is no Ebb server; check the address.`, { cause: error })
      if (isTimeout(error))
        throw new EbbError('server_unreachable', `The server at ${this.url} does not answer; check that it is well.`, { cause: error })
      throw new EbbError('server_unreachable', `No server answers at ${this.url} (${why(error)}); check that it runs.`, { cause: error })
    }
  }

  /** The server's own sentence, under the code it gave. */
  #refusal({ status, body }: Answer): EbbError {
    const { code, message, details } = (body ?? {}) as { code?: string; message?: string; details?: unknown }
    if (code === 'unauthorized')
      return new EbbError('unauthorized', `The server at ${this.url} wants its token; give it with --token or EBB_TOKEN.`)
    if (typeof message !== 'string')
      return new EbbError('server_unreachable', `What answers at ${this.url} is no Ebb server (status ${status}); check the address.`)
    return new EbbError(isErrorCode(code) ? code : 'internal', message, { details })
  }
}

function isErrorCode(code: string | undefined): code is ErrorCode {
  return code !== undefined && Object.hasOwn(errorTable, code)
}

/** An abort has its reason in its cause. */
function why(error: unknown): string {
  const reason = error instanceof Error ? (error.cause ?? error) : error
  return errno(reason) ?? sentence(reason)
}

/** The server that was named, unasked, or the one of the home. */
export async function connect(config: Config): Promise<Client> {
  const found = await look(config)
  if (found instanceof Client) return found
  throw new EbbError('server_unreachable', found.absence)
}

/** The same, and it has said that it is there, and one of ours. */
export async function greet(config: Config): Promise<Client> {
  const client = await connect(config)
  if (config.url !== undefined) await client.pid()
  return client
}

/** The server that was named, unasked; else the one of the home, if it runs. */
export async function findServer(config: Config): Promise<Client | undefined> {
  const found = await look(config)
  return found instanceof Client ? found : undefined
}

async function look({ url, token, home }: Config): Promise<Client | { readonly absence: string }> {
  const file = readServerFile(home)
  // The token in a home is for that home's server, and told to no other.
  if (url !== undefined) return new Client(url, token ?? (file?.url === url ? file.token : undefined))
  if (!file) return { absence: `No server runs on the home ${home}; start one with: ebb serve` }
  const client = new Client(file.url, token ?? file.token)
  try {
    if ((await client.pid()) === file.pid) return client
  } catch (error) {
    if (!(error instanceof EbbError) || error.code !== 'server_unreachable') throw error
    if (isAlive(file.pid) && isTimeout(error.cause))
      throw new EbbError('server_unreachable', `The server of ${home} (pid ${file.pid}, ${file.url}) runs and does not answer.`)
  }
  return { absence: stale(home, file) }
}

/** It wrote where it listens and could not take it back: killed, or lost with its machine. */
function stale(home: string, { pid, url }: ServerFile): string {
  return `The server of ${home} (pid ${pid}, ${url}) is gone without a goodbye; start another one with: ebb serve`
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
