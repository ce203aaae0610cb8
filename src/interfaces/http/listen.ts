import { createServer, type Server } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { EbbError, errno } from '../../domain/errors.ts'

export interface Listening {
  readonly port: number
  close(): Promise<void>
}

/** So many free ports are tried until one is free on both addresses. */
const mostTries = 20

/**
 * For this machine the server answers on 127.0.0.1 and ::1, because a browser may take either for `localhost`. The second
 * listener hands its connections to the first one's server: one server, two doors.
 */
export async function listen(app: FastifyInstance, host: string, port: number): Promise<Listening> {
  await app.ready()
  const isBoth = ['localhost', '127.0.0.1', '::1'].includes(host)
  for (let attempt = 1; ; attempt++) {
    const first = await open(app.server, isBoth ? '127.0.0.1' : host, port)
    const second = isBoth ? await openSecond(app, first, port === 0 && attempt < mostTries) : undefined
    if (second !== 'taken') return { port: first, close: () => closeAll(app, second) }
    await new Promise<void>((resolve) => app.server.close(() => resolve()))
  }
}

/** `taken`: somebody else has the same port on ::1, and another one may be tried. */
async function openSecond(app: FastifyInstance, port: number, mayTryAgain: boolean): Promise<Server | 'taken' | undefined> {
  const door = createServer((socket) => void app.server.emit('connection', socket))
  try {
    await open(door, '::1', port)
    return door
  } catch (error) {
    if (error instanceof EbbError && mayTryAgain) return 'taken'
    // A machine without IPv6 has one address for itself.
    if (errno(error) === 'EADDRNOTAVAIL' || errno(error) === 'EAFNOSUPPORT') return undefined
    throw error
  }
}

function open(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const onError = (error: unknown): void => {
      reject(
        errno(error) === 'EADDRINUSE'
          ? new EbbError('port_taken', `Port ${port} on ${host} is taken by another program; give another one with --port.`, {
              cause: error,
            })
          : error,
      )
    }
    server.once('error', onError)
    server.listen({ host, port }, () => {
      server.off('error', onError)
      const address = server.address()
      resolve(typeof address === 'object' && address ? address.port : port)
    })
  })
}

async function closeAll(app: FastifyInstance, second: Server | undefined): Promise<void> {
  second?.close()
  await app.close()
}
