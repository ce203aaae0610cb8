import { createServer, type Server } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { EbbError, errno } from '../../core/model/errors.ts'

export interface Listening {
  readonly port: number
  close(): Promise<void>
}

/** How many ports are tried, when the port is 0, until one is free on both addresses. */
const mostTries = 20

/**
 * Listens on the host and port. A loopback host means both 127.0.0.1 and ::1, because a browser may resolve `localhost` to either.
 * The second listener passes its connections to the HTTP server of the first.
 */
export async function listen(app: FastifyInstance, host: string, port: number): Promise<Listening> {
  await app.ready()
  return await openListeners(app, host, port).catch((error: unknown) => {
    throw listenError(error, host, port)
  })
}

async function openListeners(app: FastifyInstance, host: string, port: number): Promise<Listening> {
  const isBoth = ['localhost', '127.0.0.1', '::1'].includes(host)
  for (let attempt = 1; ; attempt++) {
    const first = await open(app.server, isBoth ? '127.0.0.1' : host, port)
    const second = isBoth ? await openSecond(app, first, port === 0 && attempt < mostTries) : undefined
    if (second !== 'taken') {
      // A failed accept, for example without free descriptors, concerns one connection. An unhandled 'error' event would end the server.
      for (const listener of [app.server, second])
        listener?.on('error', (error) => app.log.error({ err: error }, 'A connection could not be accepted.'))
      return { port: first, close: () => closeAll(app, second) }
    }
    await new Promise<void>((resolve) => app.server.close(() => resolve()))
  }
}

/** Listens on ::1. Returns `taken` when another program has the port there and another port may be tried. Undefined without IPv6. */
async function openSecond(app: FastifyInstance, port: number, mayTryAgain: boolean): Promise<Server | 'taken' | undefined> {
  const listener = createServer((socket) => void app.server.emit('connection', socket))
  try {
    await open(listener, '::1', port)
    return listener
  } catch (error) {
    if (errno(error) === 'EADDRINUSE' && mayTryAgain) return 'taken'
    // A machine without IPv6 has 127.0.0.1 only.
    if (errno(error) === 'EADDRNOTAVAIL' || errno(error) === 'EAFNOSUPPORT') return undefined
    throw error
  }
}

function open(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, () => {
      server.off('error', reject)
      const address = server.address()
      resolve(typeof address === 'object' && address ? address.port : port)
    })
  })
}

function listenError(cause: unknown, host: string, port: number): unknown {
  switch (errno(cause)) {
    case 'EADDRINUSE':
      return new EbbError('port_taken', `Port ${port} on ${host} is taken by another program; give another one with --port.`, { cause })
    case 'EACCES':
      return new EbbError(
        'bad_usage',
        `Port ${port} needs privileges that this user does not have; give a port from 1024 on with --port.`,
        {
          cause,
        },
      )
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EINVAL':
      return new EbbError('bad_usage', `${host} is not an address of this machine; give one with --host.`, { cause })
    default:
      return cause
  }
}

async function closeAll(app: FastifyInstance, second: Server | undefined): Promise<void> {
  second?.close()
  await app.close()
}
