import type { Socket } from 'node:net'
import type { ConnectionError } from 'fastify'

const unreadable: Readonly<Record<string, readonly [status: number, name: string, why: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large', 'Address and headers are longer than 16 kB together.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout', 'The call did not come to its end in time.'],
}

/** What is no HTTP, or too long for it, has no request to answer to; only a connection. */
export function answerUnreadable({ code }: ConnectionError, socket: Socket): void {
  if (code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, name, why] = unreadable[code] ?? [400, 'Bad Request', 'This is no HTTP request.']
  const body = JSON.stringify({ statusCode: status, code: status === 431 ? 'too_large' : 'invalid_request', message: why })
  const head = `Connection: close\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}`
  socket.write(`HTTP/1.1 ${status} ${name}\r\n${head}\r\n\r\n${body}`)
  socket.destroySoon()
}
