import type { Failure } from '../api.ts'
import type { Json } from '../conversation.ts'

/** The error body that both APIs of OpenAI share. */
export function openaiError({ status, message }: Failure): Json {
  const [type, code] =
    status === 429 ? ['requests', 'rate_limit_exceeded'] : status < 500 ? ['invalid_request_error', null] : ['server_error', null]
  return { error: { message, type, param: null, code } }
}
