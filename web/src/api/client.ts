import { token, wantToken } from './token.ts'

/** Calls of the server's HTTP API. A failed call throws an `ApiError` whose message is a sentence for the user. */

export class ApiError extends Error {
  /** The HTTP status, or 0 when there was no answer. */
  readonly status: number
  readonly code: string
  readonly details: unknown

  constructor(message: string, { status, code, details }: { status: number; code: string; details?: unknown }) {
    super(message)
    this.status = status
    this.code = code
    this.details = details
  }
}

export interface CallOptions {
  readonly body?: unknown
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number
}

export interface Answer<T> {
  readonly body: T
  readonly headers: Headers
}

/** A close may take as long as its ladder, and a launch as long as a remote machine needs. All other calls are answered at once. */
export const closeTimeoutMs = 120_000
export const launchTimeoutMs = 120_000
const usualTimeoutMs = 20_000

export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  return (await ask<T>(method, path, options)).body
}

/** Like `call`, and also returns the headers of the answer. */
export async function ask<T>(method: string, path: string, options: CallOptions = {}): Promise<Answer<T>> {
  const { body, query = {}, signal, timeoutMs = usualTimeoutMs } = options
  const parameters = new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)] as [string, string]])),
  )
  const search = parameters.size > 0 ? `?${parameters}` : ''
  const deadline = AbortSignal.timeout(timeoutMs)
  const known = token()
  try {
    const response = await fetch(`/api${path}${search}`, {
      method,
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
      headers: {
        ...(known !== undefined && { Authorization: `Bearer ${known}` }),
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw refusal(response.status, text)
    return { body: (text === '' ? undefined : JSON.parse(text)) as T, headers: response.headers }
  } catch (error) {
    throw explained(error, signal, deadline, timeoutMs)
  }
}

function refusal(status: number, text: string): ApiError {
  if (status === 401) wantToken()
  const answer = parse(text)
  const message = typeof answer.message === 'string' ? answer.message : `The server answered with status ${status} and no message.`
  return new ApiError(message, {
    status,
    code: typeof answer.code === 'string' ? answer.code : 'unknown',
    details: answer.details ?? answer.problems,
  })
}

function parse(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

function explained(error: unknown, signal: AbortSignal | undefined, deadline: AbortSignal, timeoutMs: number): unknown {
  // An aborted call keeps its AbortError, so that callers can ignore it.
  if (error instanceof ApiError || signal?.aborted) return error
  if (deadline.aborted)
    return new ApiError(`The server did not answer within ${timeoutMs / 1_000} seconds. Try again.`, { status: 0, code: 'timeout' })
  return new ApiError('The server cannot be reached. Is "ebb serve" still running?', { status: 0, code: 'unreachable' })
}

export function sentenceOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError'
}
