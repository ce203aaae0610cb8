import type { Socket } from 'node:net'
import type { ConnectionError } from 'fastify'
import { type ErrorCode, errorTable } from '../../core/model/errors.ts'

const unreadable: Readonly<Record<string, readonly [code: ErrorCode, name: string, why: string]>> = {
  HPE_HEADER_OVERFLOW: [
    'headers_too_large',
    'Request Header Fields Too Large',
    'The address and the headers are longer than 16 kB together.',
  ],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'Request Timeout', 'The request did not arrive completely in time.'],
}

/** Answers a connection whose bytes are not a valid HTTP request, so there is no request object. */
export function answerUnreadable(error: ConnectionError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [code, name, message] = unreadable[error.code] ?? (['invalid_request', 'Bad Request', 'This is not an HTTP request.'] as const)
  const { status } = errorTable[code]
  const body = JSON.stringify({ statusCode: status, code, message })
  const head = `Connection: close\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}`
  socket.write(`HTTP/1.1 ${status} ${name}\r\n${head}\r\n\r\n${body}`)
  socket.destroySoon()
}
