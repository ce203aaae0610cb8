import type { Failure } from '../api.ts'
import type { Json } from '../conversation.ts'

/** Both APIs of OpenAI report errors alike. */
export function openaiError({ status, message }: Failure): Json {
  const [type, code] =
    status === 429 ? ['requests', 'rate_limit_exceeded'] : status < 500 ? ['invalid_request_error', null] : ['server_error', null]
  return { error: { message, type, param: null, code } }
}
