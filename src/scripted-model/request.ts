import type { IncomingMessage } from 'node:http'
import { type Json, object } from './conversation.ts'

/** The maximum size of a request body in bytes. It is large enough for a conversation with pictures. */
const bodyLimit = 64 * 1024 * 1024

/**
 * The maximum nesting of a request body, far more than any conversation has. Thousands of levels overflow the stack of recursive code, such
 * as JSON.stringify in `GET /requests`.
 */
const levelLimit = 500

/** Refuses requests of web pages: a browser sends `Origin`, and a rebound name shows in `Host`. */
export function refusal({ headers }: IncomingMessage): string | undefined {
  if (headers.origin !== undefined) return 'The scripted model answers no web pages.'
  const host = (headers.host ?? '').replace(/:\d+$/, '')
  return ['127.0.0.1', 'localhost', '[::1]'].includes(host) ? undefined : 'The scripted model answers only on localhost.'
}

export interface Body {
  readonly json: Json
  readonly bytes: number
}

export async function readJson(request: IncomingMessage): Promise<Body | { readonly status: number; readonly problem: string }> {
  if (request.headers['content-encoding'] !== undefined) {
    request.resume()
    return { status: 415, problem: 'The scripted model reads no compressed requests; switch the compression of requests off.' }
  }
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length <= bodyLimit) chunks.push(chunk)
  }
  if (length > bodyLimit) return { status: 413, problem: `The request has more than ${bodyLimit} bytes.` }
  try {
    const json = object(JSON.parse(Buffer.concat(chunks).toString()))
    return isDeeper(json, levelLimit)
      ? { status: 400, problem: `The request is nested in more than ${levelLimit} levels.` }
      : { json, bytes: length }
  } catch {
    return { status: 400, problem: 'The request is not JSON.' }
  }
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((one) => isDeeper(one, levels - 1))
}
