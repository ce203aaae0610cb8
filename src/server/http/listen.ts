import { createServer, type Server } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { EbbError, errno } from '../../core/model/errors.ts'

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
  return await openGates(app, host, port).catch((error: unknown) => {
    throw explained(error, host, port)
  })
}

async function openGates(app: FastifyInstance, host: string, port: number): Promise<Listening> {
  const isBoth = ['localhost', '127.0.0.1', '::1'].includes(host)
  for (let attempt = 1; ; attempt++) {
    const first = await open(app.server, isBoth ? '127.0.0.1' : host, port)
    const second = isBoth ? await openSecond(app, first, port === 0 && attempt < mostTries) : undefined
    if (second !== 'taken') {
      // An accept that failed, for want of descriptors, say, is one caller's trouble; unheard it would end every agent.
      for (const door of [app.server, second]) door?.on('error', (error) => app.log.error({ err: error }, 'A connection was not taken.'))
      return { port: first, close: () => closeAll(app, second) }
    }
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
    if (errno(error) === 'EADDRINUSE' && mayTryAgain) return 'taken'
    // A machine without IPv6 has one address for itself.
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

function explained(cause: unknown, host: string, port: number): unknown {
  switch (errno(cause)) {
    case 'EADDRINUSE':
      return new EbbError('port_taken', `Port ${port} on ${host} is taken by another program; give another one with --port.`, { cause })
    case 'EACCES':
      return new EbbError('bad_usage', `Port ${port} needs rights that this user does not have; give one from 1024 on with --port.`, {
        cause,
      })
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EINVAL':
      return new EbbError('bad_usage', `${host} is no address of this machine; give one that is with --host.`, { cause })
    default:
      return cause
  }
}

async function closeAll(app: FastifyInstance, second: Server | undefined): Promise<void> {
  second?.close()
  await app.close()
}
