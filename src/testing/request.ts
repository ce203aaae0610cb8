import { within } from './race.ts'

/** How the testing kit calls a server: through the request object of the test, or by itself with a URL. */

export interface RequestOptions {
  headers?: Record<string, string>
  data?: unknown
  /** The timeout of the request, in milliseconds. */
  timeout?: number
}

/** A response: Playwright's `APIResponse`, or a `Response` of `fetch`, where `ok` and `status` are values instead of functions. */
export interface ResponseLike {
  ok: boolean | (() => boolean)
  status: number | (() => number)
  text?(): Promise<string>
  json(): Promise<unknown>
}

/** Playwright's `APIRequestContext`, or anything of its shape. Paths are relative to its own base URL. */
export interface RequestLike {
  get(url: string, options?: RequestOptions): Promise<ResponseLike>
  post(url: string, options?: RequestOptions): Promise<ResponseLike>
  delete(url: string, options?: RequestOptions): Promise<ResponseLike>
}

/** The address of a server. With a namespace, only that namespace is observed and cleaned up. */
export interface Address {
  readonly url: string
  readonly namespace?: string | undefined
  readonly token?: string | undefined
}

/** A request object of the test, with the namespace to use. */
export interface NamespacedRequest {
  readonly request: RequestLike
  /** The URL of the server. Needed when the request object has no base URL, or the base URL of another server. */
  readonly url?: string | undefined
  readonly namespace?: string | undefined
  readonly token?: string | undefined
}

export type Target = RequestLike | string | URL | Address | NamespacedRequest

export interface Answer {
  readonly isOk: boolean
  readonly status: number
  readonly body: unknown
}

export interface CallOptions {
  readonly data?: unknown
  readonly timeoutMs?: number
}

export type Method = 'get' | 'post' | 'delete'

export interface Client {
  /** Resolves with any answer of the server. Throws when there is none. */
  call(method: Method, path: string, options?: CallOptions): Promise<Answer>
  /** Resolves with the body of a successful answer. Otherwise throws an error with the server's message. */
  ask<T>(method: Method, path: string, options?: CallOptions): Promise<T>
}

/** The timeout of calls that the server answers at once. */
const defaultTimeoutMs = 15_000

export function clientOf(target: Target): Client {
  const { request, url, namespace, token } = partsOf(target)
  const headers: Record<string, string> = {
    ...(namespace !== undefined && { 'X-Ebb-Namespace': namespace }),
    ...(token !== undefined && { Authorization: `Bearer ${token}` }),
  }

  async function call(method: Method, path: string, { data, timeoutMs = defaultTimeoutMs }: CallOptions = {}): Promise<Answer> {
    const name = `${method.toUpperCase()} ${url}${path}`
    const options = { headers, timeout: timeoutMs, ...(data !== undefined && { data }) }
    try {
      return await within(timeoutMs, request[method](url + path, options).then(read), () => {
        throw new Error(`no answer came within ${timeoutMs} ms`)
      })
    } catch (error) {
      const why = error instanceof Error ? [error.message, reason(error.cause)].filter(Boolean).join(': ') : String(error)
      throw new Error(`${name} failed (${why}); is "ebb serve" running there?`, { cause: error })
    }
  }

  return {
    call,
    ask: async <T>(method: Method, path: string, options?: CallOptions): Promise<T> => {
      const { isOk, status, body } = await call(method, path, options)
      if (!isOk) throw new Error(`${method.toUpperCase()} ${url}${path} was answered with ${status}: ${messageOf(body)}`)
      return body as T
    },
  }
}

interface Parts {
  readonly request: RequestLike
  readonly url: string
  readonly namespace?: string | undefined
  readonly token?: string | undefined
}

function partsOf(target: Target): Parts {
  if (typeof target === 'string' || target instanceof URL) return { request: fetching, url: withoutSlash(String(target)) }
  if ('request' in target) return { ...target, url: withoutSlash(target.url ?? '') }
  // The URL is checked before the methods: an EbbHandle has both, and only its address includes the namespace.
  if ('url' in target && typeof target.url === 'string') {
    const { url, namespace, token } = target
    return { request: fetching, url: withoutSlash(url), namespace, token }
  }
  if ('get' in target && 'post' in target && 'delete' in target) return { request: target, url: '' }
  throw new TypeError('The testing kit needs a base URL, {url, namespace?, token?}, or a request with get, post and delete.')
}

const withoutSlash = (url: string): string => url.replace(/\/+$/, '')

/** `fetch` as a `RequestLike`. */
const fetching: RequestLike = {
  get: (url, options) => fetch(url, { ...init(options) }),
  post: (url, options) => fetch(url, { method: 'POST', ...init(options) }),
  delete: (url, options) => fetch(url, { method: 'DELETE', ...init(options) }),
}

function init({ headers = {}, data, timeout = defaultTimeoutMs }: RequestOptions = {}): RequestInit {
  const signal = AbortSignal.timeout(timeout)
  return data === undefined
    ? { headers, signal }
    : { headers: { ...headers, 'Content-Type': 'application/json' }, body: JSON.stringify(data), signal }
}

async function read(response: ResponseLike): Promise<Answer> {
  const status = typeof response.status === 'function' ? response.status() : response.status
  const isOk = typeof response.ok === 'function' ? response.ok() : response.ok
  return { isOk, status, body: status === 204 ? undefined : await bodyOf(response) }
}

/** The body as JSON, else as text: the error page of a proxy is not JSON. */
async function bodyOf(response: ResponseLike): Promise<unknown> {
  if (!response.text) return await response.json()
  const text = await response.text()
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

export function messageOf(body: unknown): string {
  if (typeof body === 'object' && body !== null && 'message' in body) return String(body.message)
  return typeof body === 'string' && body !== '' ? body.slice(0, 500) : 'the answer has no message'
}

function reason(cause: unknown): string {
  return cause instanceof Error ? cause.message : ''
}
